"""Runs the operations of one case in one order, and finds every order by going back to the last choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ninelives_rig.explore.actor import COMMIT, GATED, READ, READS, Actor, Shared
from ninelives_rig.explore.operations import OPERATIONS
from ninelives_rig.explore.picture import Picture
from ninelives_rig.explore.rules import judge
from ninelives_rig.explore.states import STATES, Case
from ninelives_rig.explore.world import Template, World
from ninelives_rig.refusal import Refused

MOVES_MAX = 400
REPEATS_MAX = 8
"""How often a schedule is begun again that did not go as it had gone before, until its choice counts as unreached."""

_SKIPPING = frozenset([f"{GATED.decode()}/take"])
_READS = frozenset([*(block.decode() for block in READS), f"{GATED.decode()}/look"])


@dataclass(frozen=True, slots=True)
class Move:
    """One move of a schedule: whose, what it sent, whether it then waited, and whether it began a transaction."""

    letter: str
    sent: str
    waited: bool
    began: bool = False


@dataclass(slots=True)
class Outcome:
    """What one schedule did, and what was wrong with it."""

    case: Case
    moves: list[Move] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    redundant: bool = False
    """It differs from another schedule only by moves that commute, and was given up."""
    answers: tuple[str, ...] = ()
    unreached: bool = False
    """No schedule: a choice that could not be come back to, see ``REPEATS_MAX``."""

    @property
    def letters(self) -> str:
        """The schedule: whose move came when."""
        return "".join(move.letter for move in self.moves)

    @property
    def waits(self) -> int:
        """How many moves waited for a lock."""
        return sum(move.waited for move in self.moves)


def run(world: World, case: Case, order: str) -> Outcome:
    """Run one schedule: the moves of ``order``, and behind them always the first one that is possible.

    Raises ``OutOfStep`` where ``order`` asks for a move that is not possible.
    """
    return _run(world, case, Choices(order))


class OutOfStep(Refused):
    """A move of the order that was asked for is not possible at its place.

    Of two that wait for one lock, a commit lets both go on, and the server says who gets it: among three operations an
    order can fare otherwise than before.
    """

    def __init__(self, case: Case, place: int, letter: str, possible: str) -> None:
        super().__init__(
            f"{case}: move {place + 1} is {letter}'s, and only {' or '.join(possible)} can move there;"
            " run it again, or let the explorer find the schedule again"
        )
        self.place = place


class Choices:
    """Whose move comes next: the letters of ``order``, and then the first letter that can move."""

    def __init__(self, order: str = "") -> None:
        self._order = order

    def choose(self, place: int, possible: str) -> str | None:
        """Return one of the letters that can move; None gives the schedule up."""
        return self._order[place] if place < len(self._order) else possible[0]

    def note(self, place: int, move: Move) -> None:
        """Learn what a chosen move did."""


def _run(world: World, case: Case, choices: Choices) -> Outcome:
    outcome = Outcome(case)
    template = template_of(world, case.state)
    world.restore(template)
    shared = Shared()
    actors = [world.actor(letter, shared, template.hold) for letter in case.letters]
    pictures = [template.picture]
    for actor, name in zip(actors, case.operations, strict=True):
        actor.begin(OPERATIONS[name])
    world.loop.settle()
    try:
        _run_moves(world, actors, shared, choices, outcome, pictures)
    finally:
        for actor in actors:
            actor.end()
        world.loop.settle()
    if outcome.redundant:
        return outcome
    outcome.violations += judge(pictures, shared.told, template.hold)
    outcome.violations += [f"{actor.letter} failed: {actor.failure}" for actor in actors if actor.failure is not None]
    outcome.answers = tuple(f"{one.letter}: {one.kind} {one.answer}" for one in shared.told)
    return outcome


def _run_moves(
    world: World,
    actors: Sequence[Actor],
    shared: Shared,
    choices: Choices,
    outcome: Outcome,
    pictures: list[Picture],
) -> None:
    while not all(actor.done for actor in actors):
        place = len(outcome.moves)
        possible = "".join(actor.letter for actor in actors if actor.ready)
        if not possible:
            waiting = ", ".join(f"{actor.letter} in {actor.next_move()}" for actor in actors if actor.waits)
            outcome.violations.append(f"L2: everybody waits for everybody ({waiting or 'nothing was sent'})")
            return
        if place >= MOVES_MAX:
            outcome.violations.append(f"no end after {MOVES_MAX} moves")
            return
        letter = choices.choose(place, possible)
        if letter is None:
            outcome.redundant = True
            return
        if letter not in possible:
            raise OutOfStep(outcome.case, place, letter, possible)
        actor = next(one for one in actors if one.letter == letter)
        sent, began, acting, commits = actor.next_move(), actor.begins, actor.token, shared.commits
        actor.move()
        outcome.moves.append(Move(letter, sent, actor.waits, began))
        choices.note(place, outcome.moves[-1])
        if shared.commits > commits:
            pictures.append(world.picture(letter, acting))
        _let_go_on(actors)


def _let_go_on(actors: Sequence[Actor]) -> None:
    """Look at everybody who waits until nobody goes on any more: what one gets may free another."""
    while any(actor.observe() for actor in actors if actor.waits):
        pass


def template_of(world: World, state: str) -> Template:
    """Return a state's template; the first time the state is made, by the store's own operations.

    Raises ``StateBroken`` when an invariant is violated on the way.
    """
    if state in world.templates:
        return world.templates[state]
    world.empty()
    shared = Shared()
    actor = world.actor("M", shared, None)
    pictures = [world.picture()]

    async def history(actor: Actor) -> None:
        for name in STATES[state].history:
            await OPERATIONS[name](actor)

    actor.begin(history)
    world.loop.settle()
    while not actor.done:
        acting, commits = actor.token, shared.commits
        actor.move()
        if shared.commits > commits:
            pictures.append(world.picture("M", acting))
    violations = judge(pictures, shared.told, None)
    if actor.failure is not None:
        violations.append(f"{actor.failure!r}")
    if violations:
        raise StateBroken(state, violations)
    return world.keep(state, actor.hold)


class StateBroken(Exception):
    """The operations that make a state violate an invariant before anything meets."""

    def __init__(self, state: str, violations: list[str]) -> None:
        super().__init__(f"the state {state} cannot be made: {'; '.join(violations)}")
        self.state = state
        self.violations = violations


def explore(world: World, case: Case, *, all_orders: bool = False) -> Iterator[Outcome]:
    """Run every schedule of a case, depth first, each from the state as it was.

    Schedules that differ only by moves that commute are run once; with ``all_orders`` each is run. Of two operations
    that are the same, only the first begins: the other schedules are these with the letters swapped.
    """
    search = _Search(alike=len(set(case.operations)) == 1, all_orders=all_orders)
    repeats = 0
    while True:
        try:
            outcome = _run(world, case, search)
        except OutOfStep as error:
            repeats += 1
            if repeats <= REPEATS_MAX:
                continue
            outcome = Outcome(case, redundant=True)
            search.give_up(error.place)
            yield Outcome(case, unreached=True)
        repeats = 0
        if not outcome.redundant:
            yield outcome
        if not search.go_back():
            return


@dataclass(slots=True)
class _Place:
    """A choice on the present path.

    ``possible`` could move; ``tried`` has moved; ``asleep`` need not move, each with the place where it was tried.
    """

    possible: str
    asleep: dict[str, int]
    tried: dict[str, Move] = field(default_factory=dict)
    chosen: str = ""


class _Search(Choices):
    """Depth-first search with sleep sets: what was tried at a place sleeps behind its later siblings that commute."""

    def __init__(self, *, alike: bool, all_orders: bool) -> None:
        super().__init__()
        self._alike, self._all_orders = alike, all_orders
        self._path: list[_Place] = []
        self._seen: dict[str, Move] = {}

    def choose(self, place: int, possible: str) -> str | None:
        if place == len(self._path):
            self._path.append(_Place(possible, self._asleep(place)))
        here = self._path[place]
        if not here.chosen:
            here.chosen = self._next(place) or ""
        return here.chosen or None

    def note(self, place: int, move: Move) -> None:
        self._path[place].tried[move.letter] = move
        self._seen[self._letters(place + 1)] = move

    def give_up(self, place: int) -> None:
        """Leave out what is left to try from this place on."""
        del self._path[place:]

    def go_back(self) -> bool:
        """Go back to the last place where something is left to try; returns whether there is one."""
        while self._path:
            chosen = self._next(len(self._path) - 1)
            if chosen is not None:
                self._path[-1].chosen = chosen
                return True
            self._path.pop()
        return False

    def _letters(self, end: int) -> str:
        return "".join(place.chosen for place in self._path[:end])

    def _next(self, place: int) -> str | None:
        here = self._path[place]
        letters = here.possible[:1] if self._alike and place == 0 else here.possible
        return next((one for one in letters if one not in here.tried and one not in here.asleep), None)

    def _asleep(self, place: int) -> dict[str, int]:
        """Say what sleeps behind the choice before this place: what slept or was tried there, and commutes with it."""
        if place == 0 or self._all_orders:
            return {}
        before = self._path[place - 1]
        tried = dict.fromkeys(before.tried, place - 1)
        path = self._letters(place)
        sleeping = {}
        for letter, origin in {**before.asleep, **tried}.items():
            # How the choice fared behind the other one: that order has been run to its end before this one.
            swapped = self._seen.get(path[:origin] + letter + path[origin:])
            if letter == before.chosen or swapped is None:
                continue
            if _commute(self._path[origin].tried[letter], swapped):
                sleeping[letter] = origin
        return sleeping


def _commute(one: Move, other: Move) -> bool:
    """Tell whether two moves, run in this order one behind the other, would lead to the same in the other order.

    Statements see what is committed, and meet the locks of others. So two that did not wait commute: neither commits,
    and locks that let both through do so in either order. Only SKIP LOCKED does not wait where it meets a lock, and the
    time of a transaction is that of its beginning: what one makes due may be in the future of another.
    """
    sent = {one.sent, other.sent}
    if READ in sent:
        return True
    if COMMIT in sent or one.waited or other.waited or (one.began and other.began):
        return False
    return not sent & _SKIPPING or bool(sent & _READS)
