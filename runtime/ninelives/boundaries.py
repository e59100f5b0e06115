"""The durable facts of an activation, in the order in which they happen.

A boundary stands directly behind the fact that it names: ``journal.committed`` is reached when the server has
acknowledged the commit. Each one has exactly one call site. An observer (the rig, a tracer) may delay, stop or
kill the process there; it returns nothing, so a run with an observer executes the same statements as one without.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from uuid import UUID


class Boundary(Enum):
    """Named points of the step protocol; the value is what reports and fault schedules print."""

    SESSION_OPENED = "session.opened"
    START_COMMITTED = "start.committed"
    CLAIM_COMMITTED = "claim.committed"
    INTENT_COMMITTED = "intent.committed"
    BODY_ENTERED = "body.entered"
    BODY_RETURNED = "body.returned"
    TRANSACTION_PREPARED = "transaction.prepared"
    JOURNAL_PREPARED = "journal.prepared"
    JOURNAL_COMMITTED = "journal.committed"
    PARK_COMMITTED = "park.committed"
    FINISH_COMMITTED = "finish.committed"
    RELEASE_COMMITTED = "release.committed"
    LEASE_LOST = "lease.lost"
    SESSION_DECLARED_DEAD = "session.declared_dead"


Observer = Callable[[Boundary, UUID | None, str, int, int, int], None]
"""Called with boundary, instance id, scope, step id, attempt, token (0 or empty where there is none)."""

_observer: Observer | None = None


def observe(observer: Observer | None) -> None:
    """Install the process-wide observer, or remove it with ``None``."""
    global _observer
    _observer = observer


def reached(
    boundary: Boundary, instance_id: UUID | None, scope: str, step_id: int, attempt: int, token: int
) -> None:
    """Tell the observer, if there is one, that a boundary was reached."""
    if _observer is not None:
        _observer(boundary, instance_id, scope, step_id, attempt, token)
