"""What a claim costs while many instances of the same plan are parked: it must not grow with them."""

from __future__ import annotations

import time
from typing import Any, Final, LiteralString
from uuid import UUID

import numpy as np
import numpy.typing as npt
import psycopg

from ninelives.collector import tune_collector
from ninelives_bench.claims_explain import sequential_scans
from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground
from ninelives_bench.populate import Connection, park, sequence, settle
from ninelives_bench.populate_door import Door, run
from ninelives_bench.rehydrate_takeover import limits
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan

WARMUP: Final = 20
DUE: Final[LiteralString] = (
    "update ninelives.flow_wake set run_at = clock_timestamp(), seq = seq + 1 where instance_id = %s"
)
PARK: Final[LiteralString] = (
    "update ninelives.flow_wake set run_at = null, holder = null, seen_seq = seq where instance_id = %s"
)
REST: Final[LiteralString] = (
    "update ninelives.flow_instance set state = 'Suspended', claims = 0 where instance_id = %s"
)

Column = npt.NDArray[np.float64]


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Return the part `claims` of summary.json."""
    tune_collector()
    return {"arms": [_measure_arm(ground, parked, plan.claims.repeats, samples) for parked in plan.claims.parked]}


def _measure_arm(ground: Ground, parked: int, repeats: int, samples: SampleStore) -> dict[str, Any]:
    with ground.database() as dsn:
        arm, empty, due = run(_claim_repeatedly(dsn, parked, repeats))
    samples.save(f"claims_{parked}", {"empty_ms": empty, "due_ms": due})
    return arm | {"empty_ms": distribution(empty), "due_ms": distribution(due)}


async def _claim_repeatedly(dsn: str, parked: int, repeats: int) -> tuple[dict[str, Any], Column, Column]:
    """Claim by turns while nothing is due and while one instance is, so that both meet the same conditions."""
    flow = sequence("bench.claims", 2)
    async with Door(dsn) as door:
        plan_id = await door.register(flow.plan)
        with psycopg.connect(dsn, autocommit=True) as connection:
            park(connection, plan_id, flow.plan, parked)
            settle(connection)
            waiting = _waiting(connection, repeats + WARMUP)
            await _claim_each(door, connection, plan_id, waiting, WARMUP)
            empty, due, wrong = await _claim_each(door, connection, plan_id, waiting, repeats)
            scans = sequential_scans(dsn, door.session.session_id, plan_id, limits(door))
    return {"parked": parked, "wrong": wrong, "sequential_scans": scans}, empty, due


def _waiting(connection: Connection, wanted: int) -> list[UUID]:
    """Return parked instances from all over the table."""
    found = connection.execute(
        "select instance_id from ninelives.flow_wake where run_at is null order by md5(instance_id::text) limit %s",
        (wanted,),
    ).fetchall()
    return [row[0] for row in found]


async def _claim_each(
    door: Door, connection: Connection, plan_id: int, waiting: list[UUID], repeats: int
) -> tuple[Column, Column, int]:
    """Return the milliseconds of empty and of due claims, and how many took something else than was due."""
    wanted, clock = limits(door), time.perf_counter_ns
    empty, due, wrong = [], [], 0
    for number in range(repeats):
        began = clock()
        nothing = await door.take(plan_id, wanted)
        empty.append(clock() - began)
        one = waiting[number % len(waiting)]
        connection.execute(DUE, (one,))
        began = clock()
        taken = await door.take(plan_id, wanted)
        due.append(clock() - began)
        wrong += bool(nothing) or [claimed.instance_id for claimed in taken] != [one.bytes]
        with connection.transaction():
            connection.execute(PARK, (one,))
            connection.execute(REST, (one,))
    return np.array(empty, dtype=np.float64) / 1e6, np.array(due, dtype=np.float64) / 1e6, wrong
