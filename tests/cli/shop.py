"""Flows for the tests of the command line; loaded by nodes as `shop:NAME`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ninelives import AtMostOnce, Call, Flow, PermanentError, RetryPolicy, capability


@capability("shop.add", version="1.0.0")
async def add(call: Call, value: Any) -> Any:
    return sum(value)


@capability("shop.refuse", version="1.0.0")
async def refuse(call: Call, value: Any) -> Any:
    raise PermanentError("out of stock \x1b[31m")


@capability("shop.wait_for_file", version="1.0.0")
async def wait_for_file(call: Call, value: Any) -> Any:
    while not Path(value).exists():
        await asyncio.sleep(0.01)
    return "seen"


@capability("shop.pay", version="1.0.0", effect=AtMostOnce)
async def pay(call: Call, value: Any) -> Any:
    if call.voids == 0:
        raise ConnectionError("the answer was lost")
    return call.idempotency_key


@capability("shop.try_again", version="1.0.0", retry=RetryPolicy(attempts_max=2, delay_s=3600, delay_max_s=3600))
async def try_again(call: Call, value: Any) -> Any:
    raise RuntimeError("not yet")


plain = Flow("shop.plain", version="1.0.0").step("add", add)
failing = Flow("shop.failing", version="1.0.0").step("add", add).step("refuse", refuse)
waiting = Flow("shop.waiting", version="2.1.0").step("add", add).await_signal("approved")
slow = Flow("shop.slow", version="1.0.0").step("wait", wait_for_file).step("add", add, input=[1, 2])
doubtful = Flow("shop.doubtful", version="1.0.0").step("pay", pay)
retried = Flow("shop.retried", version="1.0.0").step("try", try_again)
