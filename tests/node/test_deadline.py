"""A flow's deadline passes wherever the instance happens to be, by the database's clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.node import flows
from tests.node.helpers import instance, journal, make_node, run, sql, until_parked

from ninelives import Call, Flow, Handle, InstanceFailed, RetryPolicy, capability, connect

pytestmark = pytest.mark.postgres

DEADLINE_S = 0.6


@capability("tests.endless", version="1")
async def endless(call: Call, given: Any) -> None:
    await asyncio.Event().wait()


@capability("tests.always-later", version="1", retry=RetryPolicy(attempts_max=99, delay_s=0.05, factor=1.0, jitter=0.0))
async def always_later(call: Call, given: Any) -> None:
    raise RuntimeError("not yet")


@capability("tests.much-later", version="1", retry=RetryPolicy(attempts_max=9, delay_s=30.0, jitter=0.0))
async def much_later(call: Call, given: Any) -> None:
    raise RuntimeError("not yet")


def bounded(name: str) -> Flow:
    return Flow(f"tests.bounded-{name}", version="1", deadline_s=DEADLINE_S)


ENDLESS = bounded("endless").step("only", endless)
LATER = bounded("later").step("only", always_later)
MUCH_LATER = bounded("much-later").step("only", much_later)
PARKED = bounded("parked").await_signal("never")
NEVER_RUN = bounded("never-run").step("only", flows.plain)
FLOWS = [ENDLESS, LATER, MUCH_LATER, PARKED, NEVER_RUN]


async def times_out(dsn: str, handle: Handle) -> None:
    """Expect the end at the deadline, or when the next attempt (0.05 s away) would come after it."""
    with pytest.raises(InstanceFailed) as caught:
        await handle.result(20)
    assert (caught.value.state, caught.value.error["code"]) == ("TimedOut", "flow.deadline_passed")
    query = (
        "select extract(epoch from finished_at - deadline_at)::float,"
        " extract(epoch from deadline_at - created_at)::float"
        " from ninelives.flow_instance where instance_id = %s"
    )
    ((late_s, allowed_s),) = sql(dsn, query, handle.instance_id)
    assert -0.1 < late_s < 5.0
    assert DEADLINE_S <= allowed_s < DEADLINE_S + 1.0
    assert instance(dsn, handle.instance_id)["wake"] is False


@pytest.mark.parametrize("flow", [ENDLESS, LATER], ids=["during-a-step", "between-short-retries"])
def test_the_deadline_passes_while_a_node_holds_the_instance(store_dsn: str, flow: Flow) -> None:
    async def main() -> None:
        async with make_node(store_dsn, FLOWS) as node:
            handle = await node.start(flow)
            await times_out(store_dsn, handle)
            assert journal(store_dsn, handle.instance_id) != []

    run(main())


def test_a_retry_that_would_come_after_the_deadline_is_not_waited_for(store_dsn: str) -> None:
    async def main() -> None:
        async with make_node(store_dsn, FLOWS) as node:
            handle = await node.start(MUCH_LATER)
            with pytest.raises(InstanceFailed) as caught:
                await handle.result(20)
            assert caught.value.state == "TimedOut"
            assert len(journal(store_dsn, handle.instance_id)) == 1

    run(main())


def test_the_deadline_passes_while_the_instance_is_parked(store_dsn: str) -> None:
    async def main() -> None:
        async with make_node(store_dsn, FLOWS) as node:
            handle = await node.start(PARKED)
            await until_parked(store_dsn, handle.instance_id)
            assert 0 < instance(store_dsn, handle.instance_id)["due_in_s"] <= DEADLINE_S
            await times_out(store_dsn, handle)

    run(main())


@pytest.mark.parametrize("flow", [NEVER_RUN, PARKED], ids=["never-claimed", "parked"])
def test_the_deadline_passes_while_no_node_runs(store_dsn: str, tmp_path: Path, flow: Flow) -> None:
    async def main() -> None:
        async with connect(store_dsn) as client:
            given = {"log": str(tmp_path / "log")}
            if flow is PARKED:
                async with make_node(store_dsn, FLOWS) as node:
                    parked = await node.start(flow, given)
                    await until_parked(store_dsn, parked.instance_id)
                handle = client.handle(parked.instance_id)
            else:
                handle = await client.start(flow, given)
            # The rest of the deadline is taken off in the database instead of being slept through.
            sql(store_dsn, "update ninelives.flow_instance set deadline_at = clock_timestamp() - interval '1 ms'")
            sql(store_dsn, "update ninelives.flow_wake set run_at = least(run_at, clock_timestamp())")
            async with make_node(store_dsn, FLOWS):
                with pytest.raises(InstanceFailed) as caught:
                    await handle.result(20)
            assert caught.value.state == "TimedOut"
            assert not (tmp_path / "log").exists()

    run(main())


def test_a_finish_in_time_beats_the_deadline(store_dsn: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with make_node(store_dsn, FLOWS) as node:
            handle = await node.start(NEVER_RUN, {"log": str(tmp_path / "log")})
            assert await handle.result(20) == "only"

    run(main())
