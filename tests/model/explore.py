"""Breadth-first exploration of every interleaving, and liveness by reachability backwards over the fair steps."""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.model.clients import client_moves
from tests.model.effects import landing_moves
from tests.model.faults import server_moves, session_moves
from tests.model.invariants import broken, has_ended
from tests.model.moves import Move, Moves
from tests.model.nodes import node_moves
from tests.model.setting import Setting
from tests.model.state import State, Violation, initial, told
from tests.model.transactions import late_moves
from tests.model.workers import clock_moves, task_moves


@dataclass(frozen=True)
class Outcome:
    """What an exploration found: how much there is, and the shortest way to a violation if there is one."""

    states: int
    transitions: int
    seconds: float
    violation: Violation | None = None
    script: tuple[str, ...] = ()

    @property
    def invariant(self) -> str:
        """The name of the invariant that does not hold; empty when all hold."""
        return "" if self.violation is None else self.violation.invariant


def successors(setting: Setting, state: State) -> list[Move]:
    """Return every step that may be taken in a state."""
    moves = Moves(setting, state)
    node_moves(moves)
    session_moves(moves)
    late_moves(moves)
    clock_moves(moves)
    client_moves(moves)
    landing_moves(moves)
    task_moves(moves)
    server_moves(moves)
    return moves.found


class Search:
    """The reachable states in order of discovery, with the way to each and the fair steps between them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        first = initial(setting)
        self.states = [first]
        self.index = {first: 0}
        self.reached_from = array("l", [-1])
        self.fair_from = array("l", [0])
        self.fair_to = array("l")
        self.transitions = 0

    def run(self) -> tuple[Violation, int, str] | None:
        """Explore everything; return the first violation with the state in which it happened and the step."""
        for at, state in enumerate(self.states):
            violation = broken(self.setting, state)
            if violation is not None:
                return violation, at, ""
            for label, fair, target, broken_by in successors(self.setting, state):
                self.transitions += 1
                if target is None:
                    assert broken_by is not None
                    return broken_by, at, label
                number = self._number(target, at)
                if fair:
                    self.fair_to.append(number)
            self.fair_from.append(len(self.fair_to))
        return None

    def _number(self, state: State, reached_from: int) -> int:
        number = self.index.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
            self.reached_from.append(reached_from)
        return number

    def stuck(self) -> int | None:
        """Return the first state from which no fair way leads to the end of every instance."""
        can_end = bytearray(len(self.states))
        pending = [number for number, state in enumerate(self.states) if has_ended(self.setting, state)]
        for number in pending:
            can_end[number] = 1
        before_from, before = self._reversed()
        while pending:
            number = pending.pop()
            for other in before[before_from[number] : before_from[number + 1]]:
                if not can_end[other]:
                    can_end[other] = 1
                    pending.append(other)
        first = can_end.find(0)
        return None if first < 0 else first

    def _reversed(self) -> tuple[array[int], array[int]]:
        """Turn the fair steps round, sorted by where they lead."""
        count = len(self.states)
        starts = array("l", bytes(8 * (count + 1)))
        for number in self.fair_to:
            starts[number + 1] += 1
        for number in range(count):
            starts[number + 1] += starts[number]
        place = starts[:]
        before = array("l", bytes(8 * len(self.fair_to)))
        for number in range(count):
            for target in self.fair_to[self.fair_from[number] : self.fair_from[number + 1]]:
                before[place[target]] = number
                place[target] += 1
        return starts, before

    def script(self, number: int, last: str = "") -> tuple[str, ...]:
        """Return the shortest way to a state, one line for each step."""
        lines = [last] if last else []
        while number > 0:
            came_from = self.reached_from[number]
            moves = successors(self.setting, self.states[came_from])
            lines.append(next(move.label for move in moves if move.target == self.states[number]))
            number = came_from
        return tuple(reversed(lines))


def explore(setting: Setting) -> Outcome:
    """Explore a configuration; safety in every state and step first, then liveness."""
    began = time.perf_counter()
    search = Search(setting)
    with _collector_off():
        found = search.run()
        violation: Violation | None = None
        script: tuple[str, ...] = ()
        if found is not None:
            violation, number, label = found
            script = search.script(number, label)
        elif "L1" not in setting.ignored:
            stuck = search.stuck()
            if stuck is not None:
                violation = Violation("L1", "; ".join(told(search.states[stuck])))
                script = search.script(stuck)
    return Outcome(len(search.states), search.transitions, time.perf_counter() - began, violation, script)


@contextmanager
def _collector_off() -> Iterator[None]:
    """Millions of tuples without a cycle: the collector would only walk over them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
