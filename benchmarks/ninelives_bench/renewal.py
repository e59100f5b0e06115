"""One heartbeat of a session that holds many leases, as its own thread sends it."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg

from ninelives.queries import load
from ninelives.session import Session
from ninelives.settings import Settings
from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground
from ninelives_bench.populate import hold, sequence, settle
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan

FEW: Final = 10
PLAN_ID: Final = 1
BEAT_S: Final = 0.01
TIMEOUT_S: Final = 120.0


class _Often(Settings):
    """A heartbeat every few milliseconds, so that there are enough of them; each is what it is at every third TTL."""

    @property
    def renew_s(self) -> float:
        """Seconds between heartbeats."""
        return BEAT_S


class _TimedSession(Session):
    """A session that notes how long each answer took, the one to its opening included."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, load("ninelives"), "bench", _Often(), lambda _: None)
        self.took_ns: list[int] = []

    def _set_clock(self, row: tuple[object, ...] | None, asked_ns: int) -> None:
        self.took_ns.append(time.monotonic_ns() - asked_ns)
        super()._set_clock(row, asked_ns)


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Return the part `renewal` of summary.json; `arms` shows that the cost does not grow with the leases."""
    arms = []
    for leases in (FEW, plan.renewal.leases):
        took_ms, expired = _renew(ground, leases, plan.renewal.repeats)
        samples.save(f"renewal_{leases}", {"ms": took_ms})
        arms.append({"leases": leases, "expired": expired, "ms": distribution(took_ms)})
    return {"leases": arms[-1]["leases"], "ms": arms[-1]["ms"], "arms": arms}


def _renew(ground: Ground, leases: int, repeats: int) -> tuple[npt.NDArray[np.float64], bool]:
    """Return how long each heartbeat took, and whether the session expired on the way."""
    with ground.database() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        session = _TimedSession(dsn)
        hold(connection, PLAN_ID, sequence("bench.renewal", 1).plan, leases, session.session_id)
        settle(connection)
        session.open()
        try:
            end = time.monotonic() + TIMEOUT_S
            # The first entry is the opening.
            while len(session.took_ns) <= repeats and not session.lost and time.monotonic() < end:
                time.sleep(BEAT_S)
        finally:
            session.close()
        return np.array(session.took_ns[1 : repeats + 1], dtype=np.float64) / 1e6, session.lost
