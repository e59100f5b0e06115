"""What an activation knows of its instance: the frontier, the deadline, and when a snapshot is due.

A snapshot (the frontier: what is done, failed and open) is written with a commit once in a while, so that a resume
reads it and only the rows behind it: its cost does not grow with the history. Results are not in it; they have their
rows, and one that a step selects from before the snapshot is read by its key.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ninelives import codec
from ninelives.decide import Complete, Decision, decide
from ninelives.frontier import Frontier, IntentRow, StepRow, Unread
from ninelives.plan import Plan
from ninelives.store.rows import Claimed, StepCommit

SNAPSHOT_ROWS: Final = 24
"""Rows between two snapshots, at least."""
SNAPSHOT_BYTES_A_ROW: Final = 64
"""A large frontier (loops in loops, many failures) is written so much more rarely, so that a row's share is this."""
_COMPLETED: Final = b"Completed"

ReadResults = Callable[[Sequence[tuple[str, int]]], Awaitable[list[tuple[str, int, bytes | None]]]]
"""Reads the encoded results of steps that have succeeded, by scope and step id."""


class Recall:
    """The memory of one activation, rebuilt from the store by ``restore`` and moved on by ``succeed`` and ``fail``."""

    __slots__ = (
        "_deadline_at", "_read_results", "_rows_since", "_sequence", "_snapshot_bytes", "frontier", "plan",
    )  # fmt: skip

    def __init__(self, plan: Plan, claimed: Claimed, read_results: ReadResults) -> None:
        self.plan = plan
        self._read_results = read_results
        self._sequence = 0
        self._deadline_at: float | None = None
        if claimed.deadline_in_ms >= 0:
            self._deadline_at = time.monotonic() + claimed.deadline_in_ms / 1000
        self.restore(claimed)

    def restore(self, claimed: Claimed) -> None:
        """Rebuild the frontier from the snapshot and the rows behind it."""
        frontier = Frontier.restore(claimed.input, claimed.frontier)
        for step in claimed.steps:
            result: Any = step.result
            if step.outcome != "Success":
                result = None if step.result is None else codec.decode(step.result)
            captured = None if step.nondeterministic is None else codec.decode(step.nondeterministic)
            frontier.apply(
                StepRow(
                    step.scope,
                    step.step_id,
                    step.attempt,
                    step.sequence,
                    step.outcome,
                    result,
                    captured,
                    step.retry_in_ms if step.retry_in_ms >= 0 else None,
                )
            )
        for intent in claimed.intents:
            frontier.apply_intent(IntentRow(intent.scope, intent.step_id, intent.attempt, intent.token, intent.outcome))
        self.frontier = frontier
        self._snapshot_bytes = len(claimed.frontier or b"")
        self._rows_since = len(claimed.steps)

    def fail(self, row: StepCommit, error: dict[str, Any]) -> None:
        """Take the row of a failed attempt that is about to be committed into the frontier."""
        self._count()
        captured = None if row.nondeterministic is None else codec.decode(row.nondeterministic)
        self.frontier.apply(
            StepRow(
                row.scope.decode(),
                row.step_id,
                row.attempt,
                self._sequence,
                "Failure",
                error,
                captured,
                row.retry_ms if row.retry_ms >= 0 else None,
            )
        )

    def succeed(self, row: StepCommit) -> Decision:
        """Take the row of a success that is about to be committed, and fold what follows from it into its commit.

        The end of the instance goes into the same commit, and so does a snapshot that is due.
        """
        self._count()
        self.frontier.succeed(row.scope.decode(), row.step_id, row.attempt, row.result)
        decision = self.decide()
        if decision.commands and isinstance(decision.commands[0], Complete):
            row.finish = _COMPLETED
            row.finish_result = row.result
        elif self._snapshot_due():
            row.frontier = self.frontier.snapshot()
            self._snapshot_bytes = len(row.frontier)
            self._rows_since = 0
        return decision

    def _count(self) -> None:
        self._sequence += 1
        self._rows_since += 1

    def decide(self, deadline_passed: bool | None = None) -> Decision:
        """Ask the decider; the deadline is judged by what the database said was left at the claim."""
        if deadline_passed is None:
            left_ms = self.left_ms()
            deadline_passed = left_ms is not None and left_ms <= 0
        return decide(self.plan, self.frontier, deadline_passed=deadline_passed)

    async def read(self, missing: Unread) -> None:
        """Read a result that lies before the snapshot; raises ``StoreUnavailable`` when the store cannot be asked."""
        for scope, step_id, result in await self._read_results([missing.key]):
            self.frontier.remember(scope, step_id, result)

    def left_ms(self) -> float | None:
        """Milliseconds to the deadline; ``None`` without one."""
        return None if self._deadline_at is None else (self._deadline_at - time.monotonic()) * 1000

    def _snapshot_due(self) -> bool:
        rows = self._rows_since
        return rows >= SNAPSHOT_ROWS and rows * SNAPSHOT_BYTES_A_ROW >= self._snapshot_bytes
