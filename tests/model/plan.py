"""What the modelled flows are made of: steps in stages, and the parents of child flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

INLINE = "inline"
AT_MOST_ONCE = "at_most_once"
SIGNAL = "signal"
DELAY = "delay"
TASK = "task"
CHILD = "child"


class Step(NamedTuple):
    """One step. ``number`` is the signal that it waits for, or the instance that it starts as its child."""

    kind: str
    number: int = 0
    timeout: bool = False

    @property
    def has_timer(self) -> bool:
        """Whether a park has to arm a timer for this step."""
        return self.kind == DELAY or self.timeout


def inline() -> Step:
    """A step whose effect may be repeated."""
    return Step(INLINE)


def at_most_once() -> Step:
    """A step whose effect may land once at most."""
    return Step(AT_MOST_ONCE)


def signal(number: int, *, timeout: bool = False) -> Step:
    """A wait for a signal; with ``timeout`` a timer ends it too."""
    return Step(SIGNAL, number, timeout)


def delay() -> Step:
    """A wait for a timer."""
    return Step(DELAY)


def task() -> Step:
    """A step that a worker outside does under a task lease of its own."""
    return Step(TASK)


def child(instance: int) -> Step:
    """A step that starts another instance and waits for its end."""
    return Step(CHILD, instance)


class Plan:
    """A flow: stages one after the other, the steps of one stage beside each other."""

    def __init__(self, *stages: Sequence[Step]) -> None:
        self.steps: tuple[Step, ...] = tuple(step for stage in stages for step in stage)
        numbers = iter(range(len(self.steps)))
        self.stages: tuple[tuple[int, ...], ...] = tuple(tuple(next(numbers) for _ in stage) for stage in stages)

    def has(self, kind: str) -> bool:
        """Tell whether a step of that kind occurs."""
        return any(step.kind == kind for step in self.steps)


def parents(plans: Sequence[Plan]) -> tuple[int | None, ...]:
    """Return the parent of each instance, where instance ``i`` runs ``plans[i]``."""
    found: list[int | None] = [None] * len(plans)
    for number, plan in enumerate(plans):
        for step in plan.steps:
            if step.kind == CHILD:
                found[step.number] = number
    return tuple(found)
