"""Breadth-first exploration of every interleaving, and liveness by reachability backwards over the fair steps."""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic

from tests.model.space import S, Space, Violation


@dataclass(frozen=True)
class Outcome:
    """What an exploration found: how much there is, and the shortest way to a violation if there is one.

    ``script`` leads to the violation, one line for each step. Where an instance can never end, ``aftermath`` goes on
    by steps that happen by themselves, up to where nothing does any more, and ``left`` says what stands there.
    """

    states: int
    transitions: int
    seconds: float
    violation: Violation | None = None
    script: tuple[str, ...] = ()
    aftermath: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def invariant(self) -> str:
        """The name of the invariant that does not hold; empty when all hold."""
        return "" if self.violation is None else self.violation.invariant

    def told(self) -> list[str]:
        """Return the counterexample as a script that can be read from top to bottom."""
        if self.violation is None:
            return []
        lines = [f"{number:3}. {line}" for number, line in enumerate(self.script, 1)]
        lines.append(f"     {self.violation}")
        lines += [f"   + {line}" for line in self.aftermath]
        return lines + [f"     at rest: {line}" for line in self.left]


class Search(Generic[S]):
    """The reachable states in order of discovery, with the way to each and the fair steps between them."""

    def __init__(self, space: Space[S]) -> None:
        self.space = space
        first = space.initial()
        self.states: list[S] = [first]
        self.index: dict[S, int] = {first: 0}
        self.reached_from = array("l", [-1])
        self.fair_from = array("l", [0])
        self.fair_to = array("l")
        self.transitions = 0

    def run(self) -> tuple[Violation, int, str] | None:
        """Explore everything; return the first violation with the state in which it happened and the step."""
        for at, state in enumerate(self.states):
            violation = self.space.broken(state)
            if violation is not None:
                return violation, at, ""
            for label, fair, target, broken_by in self.space.moves(state):
                self.transitions += 1
                if target is None:
                    assert broken_by is not None
                    return broken_by, at, label
                number = self._number(target, at)
                if fair:
                    self.fair_to.append(number)
            self.fair_from.append(len(self.fair_to))
        return None

    def _number(self, state: S, reached_from: int) -> int:
        number = self.index.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
            self.reached_from.append(reached_from)
        return number

    def stuck(self) -> int | None:
        """Return the first state from which no fair way leads to an end."""
        can_end = bytearray(len(self.states))
        pending = [number for number, state in enumerate(self.states) if self.space.has_ended(state)]
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
            for target in self._fair(number):
                before[place[target]] = number
                place[target] += 1
        return starts, before

    def _fair(self, number: int) -> array[int]:
        return self.fair_to[self.fair_from[number] : self.fair_from[number + 1]]

    def script(self, number: int) -> tuple[str, ...]:
        """Return the shortest way to a state, one line for each step."""
        lines = []
        while number > 0:
            lines.append(self._label(self.reached_from[number], number))
            number = self.reached_from[number]
        return tuple(reversed(lines))

    def _label(self, number: int, target: int) -> str:
        moves = self.space.moves(self.states[number])
        return next(move.label for move in moves if move.target == self.states[target])

    def aftermath(self, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Follow the fair steps to the nearest state that has none; return the steps and what stands there."""
        reached_from = {number: -1}
        queue = [number]
        for at in queue:
            following = self._fair(at)
            if not following:
                break
            for target in following:
                if target not in reached_from:
                    reached_from[target] = at
                    queue.append(target)
        else:
            at = number
        rest, lines = at, []
        while reached_from[at] >= 0:
            lines.append(self._label(reached_from[at], at))
            at = reached_from[at]
        return tuple(reversed(lines)), tuple(self.space.told(self.states[rest]))


def explore(space: Space[S]) -> Outcome:
    """Explore a model; safety in every state and step first, then liveness."""
    began = time.perf_counter()
    search = Search(space)
    with _collector_off():
        found = search.run()
        if found is not None:
            violation, number, label = found
            script = search.script(number) + ((label,) if label else ())
            return Outcome(len(search.states), search.transitions, time.perf_counter() - began, violation, script)
        stuck = search.stuck()
        seconds = time.perf_counter() - began
        if stuck is None:
            return Outcome(len(search.states), search.transitions, seconds)
        violation = Violation("L1", "from here on no fair way leads to the end")
        aftermath, left = search.aftermath(stuck)
        return Outcome(
            len(search.states), search.transitions, seconds, violation, search.script(stuck), aftermath, left
        )


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
