"""B8, rehydration: what it takes until a node has the next command of an instance whose node died.

Fence and frontier through the runtime's own takeover, one instance at a time: claim, reads, `Recall`, `decide`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from ninelives.collector import tune_collector
from ninelives.plan import Plan as FlowPlan
from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground
from ninelives_bench.populate import Abandoned, Connection, abandon, abandon_again, record, sequence, settle
from ninelives_bench.populate_door import Door, run
from ninelives_bench.rehydrate_batch import measure_batch
from ninelives_bench.rehydrate_cold import cool_down
from ninelives_bench.rehydrate_load import Load, take_under_load
from ninelives_bench.rehydrate_takeover import Mortuary, Scene, Takeovers, take_each
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import B8Plan, Plan

WARMUP_INSTANCES: Final = 20
ROWS_MAX: Final = 6_000_000
"""Journal rows that are really there. Deeper populations have fewer instances, abandoned again until there are
enough samples: a thousand of 20 000 steps each would take longer to write than all else together."""
FIRST_HOLDER: Final = 1_000


@dataclass(frozen=True, slots=True)
class Variant:
    """How an arm differs from the next one."""

    cache: str
    load_per_s: int

    @property
    def name(self) -> str:
        """For the file of samples."""
        return f"{self.cache}_{self.load_per_s}"


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Return the part `b8` of summary.json."""
    tune_collector()
    arms = [arm for depth in plan.b8.depths for arm in _measure_depth(ground, plan, samples, depth)]
    return {"arms": arms, "batch": measure_batch(ground, plan, samples)}


def _measure_depth(ground: Ground, plan: Plan, samples: SampleStore, depth: int) -> list[dict[str, Any]]:
    b8 = plan.b8
    wanted = b8.deep_instances if depth > b8.deep else b8.instances
    there = min(wanted, max(1, ROWS_MAX // depth - WARMUP_INSTANCES))
    with ground.database() as dsn:
        supply = _Supply(dsn, depth, there, plan.seed)
        return [
            _measure_arm(ground, supply, variant, wanted, samples, plan) for variant in _variants(b8, depth)
        ]


def _variants(b8: B8Plan, depth: int) -> list[Variant]:
    variants = [Variant("warm", 0)]
    if depth in b8.loaded_depths:
        variants.append(Variant("warm", b8.load_per_s))
    if depth in b8.cold_depths:
        variants.append(Variant("cold", 0))
    return variants


class _Supply:
    """The instances of one depth, written once and abandoned again for every arm."""

    def __init__(self, dsn: str, depth: int, count: int, seed: int) -> None:
        self.dsn = dsn
        self.count = count
        self._random = random.Random(seed)
        self._holder = FIRST_HOLDER
        flow = sequence(f"bench.b8_{depth}", depth + 1)
        journal = record(flow.plan, depth)
        self.scene = Scene(flow.plan, run(_register(dsn, flow.plan)), journal)
        holders = range(self._holder, self._holder + count + WARMUP_INSTANCES)
        with psycopg.connect(dsn, autocommit=True) as connection:
            self._all = abandon(connection, self.scene.plan_id, flow.plan, journal, holders)
            settle(connection)
        self._fresh = True

    def orphans(self, cache: str) -> tuple[list[Abandoned], list[Abandoned]]:
        """Return those to warm up with, and those to measure, in drawn order and each once."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            if not self._fresh:
                self._holder += len(self._all)
                self._all = abandon_again(connection, self._all, range(self._holder, self._holder + len(self._all)))
                settle(connection)
            self._fresh = False
            if cache == "warm":
                _read_once(connection)
        drawn = self._random.sample(self._all, len(self._all))
        return drawn[: len(drawn) - self.count], drawn[len(drawn) - self.count :]


async def _register(dsn: str, plan: FlowPlan) -> int:
    async with Door(dsn) as door:
        return await door.register(plan)


def _read_once(connection: Connection) -> None:
    """Bring what a takeover reads into memory: the states and the rows behind the snapshots."""
    connection.execute("select sum(length(frontier::text)) from ninelives.flow_instance")
    connection.execute(
        "select sum(length(s.result::text)) from ninelives.flow_instance i join ninelives.flow_step s"
        " on s.instance_id = i.instance_id and s.sequence > i.snapshot_sequence"
    )


def _measure_arm(
    ground: Ground, supply: _Supply, variant: Variant, wanted: int, samples: SampleStore, plan: Plan
) -> dict[str, Any]:
    """Take as many as are wanted; where there are fewer instances than that, in rounds."""
    takeovers, loads, dropped = Takeovers(), [], True
    rounds = -(-wanted // supply.count)
    for number in range(rounds):
        warmup, orphans = supply.orphans(variant.cache)
        orphans = orphans[: wanted - number * supply.count]
        if variant.cache == "cold":
            dropped &= cool_down(ground.server)
            warmup = []
        loads.append(run(_take(supply, warmup, orphans, variant, takeovers, plan)))
    columns = takeovers.columns()
    depth = supply.scene.journal.depth
    samples.save(f"b8_{depth}_{variant.name}", columns)
    arm = {
        "depth": depth,
        "load_per_s": variant.load_per_s,
        "achieved_load_per_s": min(loads),
        "cache": variant.cache,
        "rows_read": takeovers.rows_read,
        "failed": takeovers.failed,
        "instances": min(supply.count, wanted),
        "each_taken": rounds,
        "frontier_bytes": len(supply.scene.journal.frontier or b""),
        "ms": distribution(columns["ms"]),
        "claim_ms": distribution(columns["claim_ms"]),
        "recall_ms": distribution(columns["recall_ms"]),
    }
    return arm if variant.cache == "warm" else arm | {"page_cache_dropped": dropped}


async def _take(
    supply: _Supply, warmup: Sequence[Abandoned], orphans: Sequence[Abandoned], variant: Variant,
    takeovers: Takeovers, plan: Plan,
) -> float:  # fmt: skip
    """Take one round; return the commits per second that really went on beside it."""
    async with Door(supply.dsn) as door:
        with Mortuary(supply.dsn) as mortuary:
            # The statements are planned by a first claim, which finds nothing.
            await take_each(door, mortuary, supply.scene, (), takeovers)
            await take_each(door, mortuary, supply.scene, warmup, Takeovers())
            if not variant.load_per_s:
                await take_each(door, mortuary, supply.scene, orphans, takeovers)
                return 0.0
            load = Load(supply.dsn, variant.load_per_s, len(orphans), plan.seed)
            return await take_under_load(load, door, mortuary, supply.scene, orphans, takeovers)
