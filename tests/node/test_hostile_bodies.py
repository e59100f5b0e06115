"""Bodies that attack the node that runs them: each fails by its own retry policy or as poison, and holds up nobody."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import psycopg
import pytest
from tests.node.helpers import journal, make_node, run, sql, until

from ninelives import AtMostOnce, Flow, Idempotent, InstanceFailed, RetryPolicy, State, Transactional, capability
from ninelives.capture import Call
from ninelives.plan import Plan

pytestmark = pytest.mark.postgres

TWICE = RetryPolicy(attempts_max=2, delay_s=0.01, jitter=0.0)


class Odd(BaseException):
    pass


@capability("tests.odd", version="1", retry=TWICE)
async def odd(call: Call, given: Any) -> None:
    raise Odd


@capability("tests.generator-exit", version="1", retry=TWICE)
async def generator_exit(call: Call, given: Any) -> None:
    raise GeneratorExit


@capability("tests.exits", version="1", retry=TWICE)
async def exits(call: Call, given: Any) -> None:
    sys.exit("cannot open the configuration")


@capability("tests.stops", version="1", retry=TWICE)
async def stops(call: Call, given: Any) -> None:
    raise StopAsyncIteration


@capability("tests.closes", version="1", effect=Transactional, retry=TWICE)
async def closes(call: Call, given: Any) -> None:
    await call.connection.close()


@capability("tests.commits", version="1", effect=Transactional, retry=TWICE)
async def commits(call: Call, given: Any) -> None:
    await call.connection.execute("commit")


@capability("tests.rolls-back", version="1", effect=Transactional, retry=TWICE)
async def rolls_back(call: Call, given: Any) -> None:
    await call.connection.rollback()


@capability("tests.stops-iterating", version="1", retry=TWICE)
async def stops_iterating(call: Call, given: Any) -> None:
    raise StopIteration


HOSTILE = [odd, generator_exit, exits, stops, stops_iterating, closes, commits, rolls_back]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: body.id)
def test_it_is_a_failed_attempt(store_dsn: str, body: Any) -> None:
    flow = Flow("tests.hostile", version="1").step("only", body)

    async def main() -> None:
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow)
            with pytest.raises(InstanceFailed) as caught:
                await handle.result(20)
            assert caught.value.state == "Failed"
            assert [row[2] for row in journal(store_dsn, handle.instance_id)] == [1, 2]
            assert caught.value.error["message"]
            await until("the node holds nothing", lambda: node.in_flight == 0)

    run(main())


@pytest.mark.parametrize("raised", [SystemExit(3), GeneratorExit(), StopIteration(), StopAsyncIteration()], ids=repr)
@pytest.mark.parametrize("effect", [Idempotent, AtMostOnce, Transactional], ids=lambda effect: effect.kind)
def test_a_selector_that_raises_what_is_no_exception_is_a_failed_attempt(
    store_dsn: str, raised: BaseException, effect: Any
) -> None:
    """sys.exit() in what `input=` calls reached the event loop, and with it the end of the node."""

    @capability("tests.given", version="1", effect=effect, retry=TWICE)
    async def given(call: Call, value: Any) -> None:
        raise AssertionError("its input could not be selected")

    def selects(state: State) -> Any:
        raise raised

    flow = Flow("tests.selects", version="1").step("only", given, input=selects)

    async def main() -> None:
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow)
            with pytest.raises(InstanceFailed) as caught:
                await handle.result(20)
            assert type(raised).__name__ in str(caught.value.error)
            assert [row[2] for row in journal(store_dsn, handle.instance_id)] == [1, 2]

    run(main())


def test_an_interrupt_is_no_attempt(store_dsn: str) -> None:
    """Ctrl-C reaches whatever runs at that moment, a body too, and must end the program."""

    @capability("tests.interrupted", version="1", retry=TWICE)
    async def interrupted(call: Call, given: Any) -> None:
        raise KeyboardInterrupt

    flow = Flow("tests.interrupted", version="1").step("only", interrupted)

    async def main() -> None:
        async with make_node(store_dsn, [flow]) as node:
            await (await node.start(flow)).result(20)

    with pytest.raises(KeyboardInterrupt):
        run(main())
    assert sql(store_dsn, "select count(*)::int from ninelives.flow_step") == [(0,)]


def test_a_transactional_body_without_a_statement_of_its_own_is_committed(store_dsn: str) -> None:
    @capability("tests.idle", version="1", effect=Transactional)
    async def idle(call: Call, given: Any) -> str:
        return "nothing to write"

    flow = Flow("tests.idle", version="1").step("one", idle).step("two", idle)

    async def main() -> None:
        async with make_node(store_dsn, [flow]) as node:
            assert await (await node.start(flow)).result(20) == "nothing to write"

    run(main())


def test_a_body_that_cancels_its_own_task_ends_as_poison(store_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of such an activation counts, or it would go round for ever."""
    monkeypatch.setattr("ninelives.node.GIVE_BACK_AFTER_S", 0.01)

    @capability("tests.suicide", version="1")
    async def suicide(call: Call, given: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    flow = Flow("tests.suicide", version="1").step("only", suicide)

    async def main() -> None:
        async with make_node(store_dsn, [flow], claims_max=3) as node:
            handle = await node.start(flow)
            with pytest.raises(InstanceFailed) as caught:
                await node.handle(handle.instance_id).result(20)
            assert caught.value.error["code"] == "instance.poison"
            await until("the node holds nothing", lambda: node.in_flight == 0)

    run(main())


def test_an_activation_that_always_breaks_ends_as_poison(store_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ninelives.node.GIVE_BACK_AFTER_S", 0.01)
    flow = Flow("tests.broken", version="1").step("only", odd)

    async def main() -> None:
        async with make_node(store_dsn, [flow], claims_max=3) as node:

            def broken(*_: object, **__: object) -> Plan:
                raise RuntimeError("a fault of ours")

            monkeypatch.setattr("ninelives.activation.Attempt", broken)
            handle = await node.start(flow)
            with pytest.raises(InstanceFailed) as caught:
                await handle.result(20)
            assert caught.value.error["code"] == "instance.poison"
            assert sql(store_dsn, "select claims from ninelives.flow_instance") == [(4,)]

    run(main())


def test_a_store_that_is_away_for_a_while_is_no_poison(store_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ninelives.node.GIVE_BACK_AFTER_S", 0.01)

    @capability("tests.writes", version="1", effect=Transactional)
    async def writes(call: Call, given: Any) -> str:
        return "written"

    flow = Flow("tests.writes", version="1").step("only", writes)

    async def main() -> None:
        async with make_node(store_dsn, [flow], claims_max=3, poll_s=0.02) as node:
            refusals = 0
            connect = psycopg.AsyncConnection.connect

            async def refuse(*given: Any, **named: Any) -> Any:
                nonlocal refusals
                if named.get("cursor_factory") is psycopg.AsyncRawCursor and refusals < 8:
                    refusals += 1
                    raise psycopg.OperationalError("too many connections")
                return await connect(*given, **named)

            monkeypatch.setattr(psycopg.AsyncConnection, "connect", refuse)
            assert await (await node.start(flow)).result(20) == "written"
            assert refusals == 8

    run(main())
