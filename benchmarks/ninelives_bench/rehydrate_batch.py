"""Takeover of many instances in one go, as the claimer does it: claim after claim until there is no orphan left."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import psycopg

from ninelives.recall import Recall
from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground
from ninelives_bench.populate import abandon, abandon_again, read_nothing, record, sequence, settle
from ninelives_bench.populate_door import Door, run
from ninelives_bench.rehydrate_takeover import Mortuary, Scene, is_right, limits
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan

DEPTH: Final = 20
FIRST_HOLDER: Final = 1_000


def measure_batch(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Return `b8.batch`: the time until every instance of one dead session has its next command."""
    count, repeats = plan.b8.batch_instances, plan.b8.batch_repeats
    with ground.database() as dsn:
        took_ms, failed = run(_take_repeatedly(dsn, count, repeats))
    samples.save("b8_batch", {"ms": took_ms})
    # Nearest rank, as every percentile here.
    median = distribution(took_ms)["p50"]
    return {
        "instances": count,
        "depth": DEPTH,
        "failed": failed,
        "ms": distribution(took_ms),
        "us_per_instance": None if median is None else median * 1000 / count,
    }


async def _take_repeatedly(dsn: str, count: int, repeats: int) -> tuple[np.ndarray[Any, np.dtype[np.float64]], int]:
    flow = sequence("bench.b8_batch", DEPTH + 1)
    journal = record(flow.plan, DEPTH)
    took_ms, failed = [], 0
    async with Door(dsn) as door:
        scene = Scene(flow.plan, await door.register(flow.plan), journal)
        with Mortuary(dsn) as mortuary, psycopg.connect(dsn, autocommit=True) as connection:
            orphans = abandon(connection, scene.plan_id, flow.plan, journal, [FIRST_HOLDER] * count)
            # The first one plans the statements and is not counted.
            for number in range(repeats + 1):
                settle(connection)
                ms, right = await _take_all(door, mortuary, scene, orphans[0].holder)
                if number:
                    took_ms.append(ms)
                    failed += count - right
                orphans = abandon_again(connection, orphans, [FIRST_HOLDER + number + 1] * count)
    return np.array(took_ms, dtype=np.float64), failed


async def _take_all(door: Door, mortuary: Mortuary, scene: Scene, holder: int) -> tuple[float, int]:
    """Return the milliseconds that it took, and how many went on at the right place."""
    mortuary.bury(holder)
    wanted = limits(door)
    found = []
    began = time.perf_counter_ns()
    while True:
        taken = await door.take(scene.plan_id, wanted)
        for claimed in taken:
            recall = Recall(scene.plan, claimed, read_nothing)
            found.append((claimed, recall, recall.decide().commands))
        if len(taken) < wanted.orphaned:
            break
    took_ms = (time.perf_counter_ns() - began) / 1e6
    mortuary.forget(holder)
    return took_ms, sum(is_right(scene.journal, *one) for one in found)
