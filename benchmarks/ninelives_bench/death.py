"""From the end of a node to another node having declared it dead: killed idle, killed in a statement, frozen."""

from __future__ import annotations

import random
import time
from typing import Any, Final

import numpy as np
import psycopg

from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground
from ninelives_bench.populate import Connection
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan
from ninelives_bench.takeover_node import Duty, NodeProcess, await_watched, seen_dead_at

TIMEOUT_S: Final = 60.0
KILL_WITHIN_S: Final = 0.3

SLEEPS: Final = {
    "idle": "",
    # A step's statement runs on the server when its node dies.
    "mid_statement": "transaction",
    # The harder case: a statement on the connection whose end tells the others.
    "mid_heartbeat": "session",
}


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Return the part `death` of summary.json."""
    drawn = random.Random(plan.seed)
    names = [*plan.death.arms, *(() if plan.quick else ("mid_heartbeat",))]
    arms = []
    for name in names:
        # The watching node has the same TTL, as the nodes of a fleet have: it trusts no expiry within one TTL of
        # the server's start.
        watching = Duty(ttl_s=plan.death.frozen_ttl_s) if name == "frozen" else Duty()
        with ground.database() as dsn, NodeProcess(dsn, watching), psycopg.connect(dsn, autocommit=True) as connection:
            if name == "frozen":
                arms.append(_measure_frozen(dsn, connection, plan, samples))
            else:
                arms.append(_measure_killed(name, dsn, connection, plan, samples, drawn))
    return {"arms": arms}


def _measure_killed(
    name: str, dsn: str, connection: Connection, plan: Plan, samples: SampleStore, drawn: random.Random
) -> dict[str, Any]:
    took, unwatched = [], 0
    for _ in range(plan.death.repeats):
        with NodeProcess(dsn, Duty(sleep=SLEEPS[name])) as victim:
            unwatched += not await_watched(connection, victim.session_id)
            # At any moment of the watch's own rhythm.
            time.sleep(drawn.uniform(0, KILL_WITHIN_S))
            killed_at = victim.kill()
            seen_at = seen_dead_at(connection, victim.session_id, TIMEOUT_S)
        if seen_at is not None:
            took.append((seen_at - killed_at) * 1000)
    column = np.array(took, dtype=np.float64)
    samples.save(f"death_{name}", {"ms": column})
    return {
        "name": name, "killed": plan.death.repeats, "seen": len(took), "unwatched": unwatched,
        "ms": distribution(column),
    }  # fmt: skip


def _measure_frozen(dsn: str, connection: Connection, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Count from the moment at which the session expires: a frozen node must be left alone until then."""
    behind_ttl: list[float] = []
    after_freeze: list[float] = []
    early = 0
    ttl_s = plan.death.frozen_ttl_s
    for _ in range(plan.death.frozen_repeats):
        with NodeProcess(dsn, Duty(ttl_s=ttl_s)) as frozen:
            await_watched(connection, frozen.session_id)
            frozen_at = frozen.freeze()
            seen_at = seen_dead_at(connection, frozen.session_id, TIMEOUT_S + ttl_s)
        if seen_at is None:
            continue
        row = connection.execute(
            "select extract(epoch from expires_at)::float8 from ninelives.node_session where session_id = %s",
            (frozen.session_id,),
        ).fetchone()
        assert row is not None
        behind_ttl.append((seen_at - row[0]) * 1000)
        after_freeze.append((seen_at - frozen_at) * 1000)
        early += seen_at < row[0]
    columns = {name: np.array(values) for name, values in (("ms", behind_ttl), ("after_freeze_ms", after_freeze))}
    samples.save("death_frozen", columns)
    return {
        "name": "frozen", "killed": plan.death.frozen_repeats, "seen": len(behind_ttl), "early": early,
        "ttl_ms": ttl_s * 1000, "ms": distribution(columns["ms"]),
        "after_freeze_ms": distribution(columns["after_freeze_ms"]),
    }  # fmt: skip
