"""transactional: the effect and its row are committed together or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.node import flows
from tests.node.flows import effects
from tests.node.helpers import child, journal, make_node, run, sql, until

from ninelives import Call, Flow, InstanceFailed, Transactional, capability, connect

pytestmark = pytest.mark.postgres


@pytest.fixture
def given(store_dsn: str, tmp_path: Path) -> dict[str, Any]:
    sql(store_dsn, "drop table if exists public.ledger")
    sql(store_dsn, "create table public.ledger (instance_id uuid, attempt int)")
    return {"log": str(tmp_path / "log")}


def booked(dsn: str) -> list[tuple[int]]:
    return sql(dsn, "select attempt from public.ledger order by 1")


def test_a_failed_attempt_is_a_row_and_its_effect_is_rolled_back(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with make_node(store_dsn) as node:
            handle = await node.start(flows.LEDGER, {**given, "fails": 2})
            assert await handle.result(20) == "after"
            assert [row[:3] for row in journal(store_dsn, handle.instance_id)] == [
                (1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 1),
            ]  # fmt: skip
            assert booked(store_dsn) == [(3,)]

    run(main())


def test_a_killed_process_leaves_neither_and_the_next_makes_both(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with connect(store_dsn) as client:
            handle = await client.start(flows.LEDGER, {**given, "deadly": True})
            with child(store_dsn) as victim:
                assert await asyncio.to_thread(victim.process.wait, 20) == -9
            assert booked(store_dsn) == []
            async with make_node(store_dsn):
                assert await handle.result(20) == "after"
            assert booked(store_dsn) == [(1,)]
            assert [row[4] for row in journal(store_dsn, handle.instance_id)] == [2, 2]
        assert [line[2] for line in effects(tmp_path / "log") if line[0] == "book"] == [1, 2]

    run(main())


def test_a_fenced_holder_s_effect_is_rolled_back_whole(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with make_node(store_dsn, ttl_s=30.0) as node:
            handle = await node.start(flows.LEDGER, {**given, "gate": str(tmp_path / "gate")})
            await until("the body runs", (tmp_path / "gate.reached").exists)
            sql(store_dsn, "update ninelives.flow_instance set fence = fence + 1")
            (tmp_path / "gate").touch()
            await until("dropped", lambda: node.in_flight == 0)
            assert (booked(store_dsn), journal(store_dsn, handle.instance_id)) == ([], [])

    run(main())


def test_after_a_fenced_commit_two_steps_at_once_still_have_a_connection_each(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """A connection that was rolled back must not be lent to two bodies: one's COMMIT would be the other's."""
    pids: list[int] = []
    met = asyncio.Barrier(2)

    @capability("tests.two-at-once", version="1", effect=Transactional)
    async def two_at_once(call: Call, value: Any) -> str:
        cursor = await call.connection.execute("select pg_backend_pid()")
        pids.append((await cursor.fetchone())[0])
        await asyncio.wait_for(met.wait(), 10)
        return "met"

    async def main() -> None:
        flow = Flow("tests.two-at-once-flow", version="1").step("only", two_at_once)
        async with make_node(store_dsn, [flows.LEDGER, flow]) as node:
            await node.start(flows.LEDGER, {**given, "gate": str(tmp_path / "gate")})
            await until("the body runs", (tmp_path / "gate.reached").exists)
            sql(store_dsn, "update ninelives.flow_instance set fence = fence + 1")
            (tmp_path / "gate").touch()
            await until("dropped", lambda: node.in_flight == 0)
            handles = [await node.start(flow) for _ in range(2)]
            assert [await handle.result(20) for handle in handles] == ["met", "met"]
            assert len(set(pids)) == 2

    run(main())


def test_a_statement_that_the_body_swallowed_fails_the_attempt(store_dsn: str) -> None:
    """The server will not commit such a transaction: that is a failed attempt, not an endless repetition."""

    @capability("tests.swallows", version="1", effect=Transactional, retry=flows.SOON)
    async def swallows(call: Call, value: Any) -> str:
        if call.attempt < 2:
            try:
                await call.connection.execute("select 1/0")
            except Exception:
                return "as if nothing had happened"
        return "clean"

    async def main() -> None:
        flow = Flow("tests.swallows-flow", version="1").step("only", swallows)
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow)
            assert await handle.result(10) == "clean"
            assert [row[2] for row in journal(store_dsn, handle.instance_id)] == [1, 2]

    run(main())


def test_a_constraint_that_fails_at_the_commit_fails_the_attempts(store_dsn: str) -> None:
    sql(store_dsn, "drop table if exists public.deferred")
    sql(store_dsn, "create table public.deferred (n int unique deferrable initially deferred)")
    sql(store_dsn, "insert into public.deferred values (1)")

    @capability("tests.deferred", version="1", effect=Transactional, retry=flows.SOON)
    async def deferred(call: Call, value: Any) -> None:
        await call.connection.execute("insert into public.deferred values (1)")

    async def main() -> None:
        flow = Flow("tests.deferred-flow", version="1").step("only", deferred)
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow)
            with pytest.raises(InstanceFailed, match="duplicate key"):
                await handle.result(10)
            assert [row[2] for row in journal(store_dsn, handle.instance_id)] == [1, 2, 3]
        assert sql(store_dsn, "select count(*) from public.deferred") == [(1,)]

    run(main())


def test_a_pause_at_the_last_step_rolls_back_and_the_resume_makes_both(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        flow = Flow("tests.ledger-only", version="1").step("book", flows.ledger)
        async with make_node(store_dsn, [flow]) as node:
            handle = await node.start(flow, {**given, "gate": str(tmp_path / "gate")})
            await until("the body runs", (tmp_path / "gate.reached").exists)
            await node.pause(handle.instance_id)
            (tmp_path / "gate").touch()
            await until("the pause is observed", lambda: node.in_flight == 0)
            assert len(booked(store_dsn)) == len(journal(store_dsn, handle.instance_id))
            await node.resume(handle.instance_id)
            await handle.result(20)
            assert len(booked(store_dsn)) == len(journal(store_dsn, handle.instance_id)) == 1

    run(main())
