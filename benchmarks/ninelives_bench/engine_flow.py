"""The flows of the engine's benchmark: steps that return about 200 bytes, so that the time is the engine's."""

from __future__ import annotations

from typing import Any, Final

from ninelives import Call, Flow, Transactional, capability

RESULT: Final[dict[str, Any]] = {
    "ok": True, "charge_id": "ch_12345", "amount": 12345, "currency": "EUR", "receipt": "r" * 110,
}  # fmt: skip
INPUT: Final[dict[str, Any]] = {"order": "o-123456", "customer": "c-1234", "total": 123.45}
EFFECT_TABLE: Final = "create table bench_effect (key text primary key, amount bigint not null)"

steps_run = 0
"""How many bodies have run in this process; each once, since nothing is killed here."""


@capability("bench.step", version="1.0.0")
async def step(call: Call, given: object) -> dict[str, Any]:
    """Return what an outside system would answer."""
    global steps_run
    steps_run += 1
    return RESULT


@capability("bench.row", version="1.0.0", effect=Transactional())
async def row(call: Call, given: object) -> dict[str, Any]:
    """Insert one row of the user's own in the transaction of the step."""
    global steps_run
    await call.connection.execute("insert into bench_effect values ($1, $2)", [call.idempotency_key, 12345])
    steps_run += 1
    return RESULT


def make_flow(steps: int, *, transactional: bool = False) -> Flow:
    """Return a flow of so many equal steps."""
    flow = Flow(f"bench.{'rows' if transactional else 'steps'}_{steps}", version="1.0.0")
    for number in range(1, steps + 1):
        flow = flow.step(f"s{number}", row if transactional else step)
    return flow
