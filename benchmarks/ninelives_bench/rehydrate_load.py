"""Takeovers beside commits: the load comes from a process of its own, the takeovers are spread over its time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ninelives_bench.committer_load import OpenLoop
from ninelives_bench.committer_nodes import Measured, Nodes, Order, WarmUp
from ninelives_bench.committer_population import insert_population
from ninelives_bench.pacer import poisson
from ninelives_bench.populate import RESULT_BYTES, Abandoned
from ninelives_bench.populate_door import Door
from ninelives_bench.rehydrate_takeover import Mortuary, Scene, Takeovers, take_each

POPULATION: Final = 10_000
TAKEOVER_EVERY_S: Final = 0.01
WARMUP_S: Final = 1.0
MARGIN_S: Final = 0.2
PHASES_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Load:
    """So many commits per second, for as long as so many takeovers need."""

    dsn: str
    per_s: int
    takeovers: int
    seed: int

    @property
    def seconds(self) -> float:
        """How long the load goes on."""
        return max(1.0, self.takeovers * TAKEOVER_EVERY_S) + 2 * MARGIN_S

    def order(self) -> Order:
        """Return what the committing node is told."""
        return Order(
            self.dsn, insert_population(self.dsn, POPULATION),
            WarmUp(OpenLoop(poisson(self.per_s, WARMUP_S, self.seed), WARMUP_S)),
            Measured(OpenLoop(poisson(self.per_s, self.seconds, self.seed + 1), self.seconds)),
            depth_max=1_000_000, result_bytes=RESULT_BYTES, seed=self.seed,
        )  # fmt: skip


async def take_under_load(
    load: Load, door: Door, mortuary: Mortuary, scene: Scene, orphans: Sequence[Abandoned], into: Takeovers
) -> float:
    """Take over at even distances while the load goes on, in as many phases of load as that needs.

    Returns the commits per second that were really made meanwhile, of the phase with the fewest. What is left after
    the last phase is not taken: there are fewer samples then, and none without load.
    """
    left = deque(orphans)
    rates: list[float] = []
    with Nodes(1) as nodes:
        while left and len(rates) < PHASES_MAX:
            await asyncio.to_thread(nodes.prepare, [load.order()])
            begin = time.perf_counter() + 0.05
            measuring = asyncio.create_task(asyncio.to_thread(nodes.measure, begin, load.seconds))
            try:
                await _take_until(begin + load.seconds - MARGIN_S, door, mortuary, scene, left, into)
            finally:
                (observed,) = await measuring
            await asyncio.to_thread(nodes.release)
            rates.append(observed.committed / observed.seconds)
    return min(rates)


async def _take_until(
    until: float, door: Door, mortuary: Mortuary, scene: Scene, left: deque[Abandoned], into: Takeovers
) -> None:
    """Take one after the other, none before its time; what comes late is not made up for in a burst."""
    due = time.perf_counter() + MARGIN_S
    while left:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        due = max(due, time.perf_counter()) + TAKEOVER_EVERY_S
        if time.perf_counter() > until:
            return
        await take_each(door, mortuary, scene, [left.popleft()], into)
