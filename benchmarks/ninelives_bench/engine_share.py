"""What the load generator itself costs: the same loads against a node that does nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import uvloop

from ninelives import Flow
from ninelives_bench import engine_flow
from ninelives_bench.committer_load import ClosedLoop, OpenLoop
from ninelives_bench.engine_load import FlowLoad
from ninelives_bench.pacer import fixed

_SECONDS: Final = 0.5
_RATE_PER_S: Final = 5_000
_IN_FLIGHT: Final = 200


class IdleNode:
    """A door that answers at the next turn of the loop: whoever awaits it is suspended, as by a real one."""

    batches = 0

    async def start(self, flow: Flow, input: Any) -> IdleNode:
        """Start nothing."""
        await asyncio.sleep(0)
        return self

    async def result(self) -> Any:
        """Return what the real flow would."""
        await asyncio.sleep(0)
        return engine_flow.RESULT


def generator_us_per_flow() -> dict[str, float]:
    """Return the processor time that starting and awaiting one flow takes in the generator, by kind of loop.

    Of an open loop, what its clock costs at this rate is in it.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return {kind: runner.run(_us_per_flow(kind)) for kind in ("closed", "open")}


async def _us_per_flow(kind: str) -> float:
    load = FlowLoad(IdleNode(), engine_flow.make_flow(3))
    begin = time.perf_counter()
    if kind == "closed":
        seen = await load.closed_loop(ClosedLoop(_IN_FLIGHT, _SECONDS), begin)
    else:
        seen = await load.open_loop(OpenLoop(fixed(_RATE_PER_S, _SECONDS), _SECONDS), begin)
    return seen.cpu_s / len(seen.due_s) * 1e6
