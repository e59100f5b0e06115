"""Notification is only latency: with a poll of an hour it is what wakes a node; without it the poll does."""

from __future__ import annotations

import asyncio

import pytest
from tests.node.flows import ALL
from tests.node.helpers import make_node, run, until, value

from ninelives import Flow, capability, connect
from ninelives.capture import Call

pytestmark = pytest.mark.postgres

NEVER_S = 3600.0


@capability("tests.plain", version="1")
async def plain(call: Call, given: object) -> str:
    return "done"


STRAIGHT = Flow("tests.straight", version="1").step("plain", plain)
WAITING = Flow("tests.waiting", version="1").step("plain", plain).await_signal("go")


def test_a_start_a_signal_and_a_resume_wake_a_node_that_hardly_polls(store_dsn: str) -> None:
    async def main() -> None:
        async with (
            make_node(store_dsn, [STRAIGHT, WAITING], poll_s=NEVER_S) as node,
            connect(store_dsn) as client,
        ):
            assert await (await client.start(STRAIGHT)).result(20) == "done"
            waiting = await client.start(WAITING)
            state = "select state from ninelives.flow_instance where instance_id = %s"
            await until("it waits", lambda: value(store_dsn, state, waiting.instance_id) == "Suspended")
            await client.pause(waiting.instance_id)
            assert await client.signal(waiting.instance_id, "go", 7) == "accepted"
            await until("the paused one is at rest", lambda: node.in_flight == 0)
            await client.resume(waiting.instance_id)
            assert await waiting.result(20) == 7

    run(main())


def test_without_any_notification_the_poll_finds_what_is_due(store_dsn: str) -> None:
    async def main() -> None:
        async with make_node(store_dsn, [STRAIGHT], poll_s=0.05) as node, connect(store_dsn) as client:
            node._on_notify = lambda channel: None  # type: ignore[method-assign]  # deaf on purpose
            node.control.renew_connection()
            await node.control.open()
            node.control._wire.on_notify = None  # type: ignore[union-attr]  # deaf on purpose
            assert await (await client.start(STRAIGHT)).result(20) == "done"

    run(main())


def test_a_node_is_told_of_a_session_that_opens(store_dsn: str) -> None:
    async def main() -> None:
        async with make_node(store_dsn, ALL, poll_s=NEVER_S, look_s=NEVER_S) as first:
            told = asyncio.Event()
            watch = first._watch
            assert watch is not None
            loop = asyncio.get_running_loop()

            def tell() -> None:
                loop.call_soon_threadsafe(told.set)

            watch.ring_changed = tell  # type: ignore[method-assign]  # spy
            async with make_node(store_dsn, ALL, poll_s=NEVER_S, look_s=NEVER_S):
                await asyncio.wait_for(told.wait(), 20)

    run(main())
