"""How a bad history is declared: a good story, one change, and every finding that this must lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.checkers.make_bundle import Row, Story, identity
from tests.checkers.stories import idempotent

from ninelives_rig.verdict import Status

FAIL, UNSURE, BROKEN = Status.FAIL, Status.INCONCLUSIVE, Status.BROKEN


@dataclass(frozen=True)
class Case:
    """``tell`` is the story; ``spoil`` changes the files written. ``findings`` is all that must be found."""

    title: str
    findings: frozenset[str]
    status: Status
    tell: Callable[[], Story]
    spoil: Callable[[Path], None] | None = None


CASES: list[Case] = []


def told(findings: str, status: Status, base: Callable[[], Story] = idempotent) -> Callable[..., None]:
    """Register a change of a good story before it is written."""

    def register(change: Callable[[Story], object]) -> None:
        def tell() -> Story:
            story = base()
            change(story)
            return story

        CASES.append(Case(change.__name__, frozenset(findings.split()), status, tell))

    return register


def spoilt(findings: str, status: Status, base: Callable[[], Story] = idempotent) -> Callable[..., None]:
    """Register a change of the files of a good story."""

    def register(change: Callable[[Path], None]) -> None:
        CASES.append(Case(change.__name__, frozenset(findings.split()), status, base, change))

    return register


def events(story: Story, event: str, index: int | None = None) -> list[Row]:
    """Return the events of this name, of one instance or of all."""
    return [
        row
        for row in story.history
        if row["event"] == event and (index is None or row["instance_id"] == identity(index))
    ]


def unfinish(story: Story, index: int, **wake: object) -> None:
    """Make an instance live again: no end, no acknowledged end, a wake of its own."""
    story.row("instance", index)["state"] = "Running"
    story.history.remove(events(story, "finished", index)[0])
    row = {"instance_id": identity(index), "seq": 1, "seen_seq": 0, "run_at": None, "holder": 77}
    story.tables["wake"].append({**row, **wake})


def register_one_more(story: Story) -> str:
    """Register an instance that nothing is known of, and return its id."""
    index = len(story.instances)
    story.instances.append({"index": index, "instance_id": identity(index), "started_by": "worker"})
    story.spec["flows"] += 1
    return identity(index)
