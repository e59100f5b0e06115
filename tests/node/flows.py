"""Flows for the tests of the node: their bodies write one line for each effect and may wait at a gate.

Everything comes with the input, so that a process of its own can run them: `log` is the file of the effects,
`gate` a file whose existence lets a body go on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ninelives import (
    AtMostOnce,
    Call,
    Done,
    Flow,
    PermanentError,
    RetryPolicy,
    Transactional,
    Unknown,
    Voided,
    capability,
)

SOON = RetryPolicy(attempts_max=3, delay_s=0.01, jitter=0.0)


def effect(call: Call, given: Mapping[str, Any]) -> None:
    """Write the line of an effect: one write, so that processes do not mix."""
    line = json.dumps([call.step_name, call.attempt, call.token, os.getpid(), call.idempotency_key])
    with open(given["log"], "ab", buffering=0) as file:
        file.write(line.encode() + b"\n")


def effects(log: Path) -> list[list[Any]]:
    """Read the effects back: step, attempt, token, pid, key."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


async def at_gate(given: Mapping[str, Any], name: str = "gate") -> None:
    if name in given:
        Path(given[name] + ".reached").touch()
        while not await asyncio.to_thread(Path(given[name]).exists):
            await asyncio.sleep(0.005)


@capability("tests.plain", version="1")
async def plain(call: Call, given: Any) -> str:
    effect(call, given)
    return call.step_name


@capability("tests.gated", version="1", retry=SOON)
async def gated(call: Call, given: Any) -> str:
    effect(call, given)
    await at_gate(given)
    return call.step_name


@capability("tests.deadly", version="1")
async def deadly(call: Call, given: Any) -> str:
    effect(call, given)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@capability("tests.capturing", version="1", retry=SOON)
async def capturing(call: Call, given: Any) -> list[Any]:
    seen = [call.now().isoformat(), str(call.new_id()), str(call.new_id()), call.random().random()]
    with open(given["log"], "a") as file:
        file.write(json.dumps(seen) + "\n")
    if call.attempt < given.get("fails", 0) + 1:
        raise RuntimeError(f"attempt {call.attempt} \0 fails")
    return seen


@capability("tests.failing", version="1", retry=SOON)
async def failing(call: Call, given: Any) -> str:
    effect(call, given)
    if given.get("permanent"):
        raise PermanentError("no use")
    if call.attempt <= given.get("fails", 99):
        raise RuntimeError(given.get("text", "no luck"))
    return "at last"


@capability("tests.slow-retry", version="1", retry=RetryPolicy(attempts_max=2, delay_s=1.2, jitter=0.0))
async def slow_retry(call: Call, given: Any) -> str:
    effect(call, given)
    if call.attempt == 1:
        raise RuntimeError("later")
    return "later"


async def probe(call: Call) -> Any:
    answer = Path(PROBE_FOLDER, f"{call.instance_id}.answer")
    said = answer.read_text() if answer.exists() else "unknown"
    if said == "exit":
        sys.exit("the probe gives up on its command line")
    return {"done": Done("found"), "voided": Voided(), "unknown": Unknown()}[said]


PROBE_FOLDER = os.environ.get("NINELIVES_TEST_PROBE", "/nonexistent")


@capability("tests.once", version="1", effect=AtMostOnce(reconcile=probe))
async def once(call: Call, given: Any) -> str:
    effect(call, given)
    if given.get("deadly") and call.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    await at_gate(given)
    return f"attempt {call.attempt}"


@capability("tests.once-blind", version="1", effect=AtMostOnce)
async def once_blind(call: Call, given: Any) -> str:
    effect(call, given)
    if given.get("deadly") and call.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if given.get("fails") and call.attempt == 1:
        raise RuntimeError("nobody knows")
    return f"attempt {call.attempt}"


@capability("tests.ledger", version="1", effect=Transactional, retry=SOON)
async def ledger(call: Call, given: Any) -> int:
    """Its effect is a row; there is no unique key, so a second one would show."""
    insert = "insert into public.ledger values ($1, $2)"
    await call.connection.execute(insert, [call.instance_id, call.attempt])
    effect(call, given)
    if given.get("deadly") and call.attempt == 1 and call.token == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if call.attempt <= given.get("fails", 0):
        raise RuntimeError("rolled back")
    await at_gate(given)
    cursor = await call.connection.execute("select pg_backend_pid()")
    return int((await cursor.fetchone())[0])


def three(version: str = "1") -> Flow:
    flow = Flow("tests.three", version=version)
    for name in ("one", "two", "three"):
        flow = flow.step(name, plain)
    return flow


THREE = three()
THREE_V2 = Flow("tests.three", version="2").step("only", plain)
GATED = Flow("tests.gated", version="1").step("before", plain).step("wait", gated).step("after", plain)
DEADLY = Flow("tests.deadly", version="1").step("die", deadly)
CAPTURING = Flow("tests.capturing", version="1").step("capture", capturing)
FAILING = Flow("tests.failing", version="1").step("try", failing).step("after", plain)
SLOW_RETRY = Flow("tests.slow-retry", version="1").step("try", slow_retry)
SIGNALLED = Flow("tests.signalled", version="1").step("before", plain).await_signal("go").step("after", plain)
WAITING = Flow("tests.waiting", version="1").await_signal("go")
ONCE = Flow("tests.once", version="1").step("once", once).step("after", plain)
ONCE_BLIND = Flow("tests.once-blind", version="1").step("once", once_blind).step("after", plain)
LEDGER = Flow("tests.ledger", version="1").step("book", ledger).step("after", plain)
ALL = [THREE, GATED, DEADLY, CAPTURING, FAILING, SLOW_RETRY, SIGNALLED, WAITING, ONCE, ONCE_BLIND, LEDGER]
