"""The flow that a user's view is taken with: three trivial steps, so that the time is the engine's."""

from __future__ import annotations

from ninelives import Call, Flow, capability


@capability("bench.user", version="1.0.0")
async def work(call: Call, order: dict[str, object]) -> object:
    """Return what came in: about as much as the steps of the other benchmarks return."""
    return order


user_flow = Flow("bench.user_flow", version="1.0.0").step("take", work).step("pack", work).step("send", work)
