"""B38: the server executed it and the answer never came, or it never arrived: one row, one end, either way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.node import flows
from tests.node.flows import effects
from tests.node.helpers import instance, journal, make_node, run, sql, until, until_parked
from tests.node.proxy import Proxy, bind_of, parse_of, query_of

from ninelives import InstanceFailed, StoreUnavailable, connect
from ninelives.wire import Wire

pytestmark = pytest.mark.postgres

both = pytest.mark.parametrize("before", [False, True], ids=["executed", "never-arrived"])


def one_row_per_attempt(dsn: str) -> None:
    """No step row twice, no gap in a sequence, no instance left."""
    assert sql(dsn, "select instance_id from ninelives.flow_wake") == []
    assert sql(dsn, "select state, count(*) from ninelives.flow_instance group by 1") != []
    gaps = (
        "select instance_id from ninelives.flow_step group by instance_id"
        " having max(sequence) <> count(*) or min(sequence) <> 1"
    )
    assert sql(dsn, gaps) == []


@both
@pytest.mark.parametrize("block", ["start_held", "commit_rows", "commit_lock"])
def test_flows_started_on_a_node_all_end_with_one_row_a_step(
    store_dsn: str, tmp_path: Path, block: str, before: bool
) -> None:
    given = {"log": str(tmp_path / "log")}

    async def main(proxy: Proxy) -> None:
        async with make_node(proxy.dsn, ttl_s=0.6) as node:
            for _ in range(10):
                proxy.cut(bind_of(block), before=before)
                handles = await asyncio.gather(*(node.start(flows.THREE, given) for _ in range(4)))
                assert [await handle.result(20) for handle in handles] == ["three"] * 4
            await until("every cut was made", lambda: proxy.cuts_left == 0)
            assert proxy.cuts >= 10

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))
    one_row_per_attempt(store_dsn)
    assert sql(store_dsn, "select count(*), count(distinct instance_id) from ninelives.flow_step") == [(120, 40)]
    # A commit that was resent runs nothing again; a start that was resent may cost the lease, never an effect.
    assert len(effects(Path(given["log"]))) == 120


@both
def test_a_client_s_start_is_one_instance(store_dsn: str, before: bool) -> None:
    async def main(proxy: Proxy) -> None:
        async with connect(proxy.dsn) as client:
            for _ in range(20):
                proxy.cut(bind_of("start"), before=before)
                made = uuid4()
                assert (await client.start(flows.THREE, {}, instance_id=made)).instance_id == made
            assert proxy.cuts == 20
        assert sql(store_dsn, "select count(*) from ninelives.flow_instance") == [(20,)]
        assert sql(store_dsn, "select count(*) from ninelives.flow_wake where holder is null") == [(20,)]

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))


@both
def test_a_signal_is_accepted_once_whether_or_not_its_answer_came(
    store_dsn: str, tmp_path: Path, before: bool
) -> None:
    given = {"log": str(tmp_path / "log")}

    async def main(proxy: Proxy) -> None:
        async with make_node(store_dsn) as node, connect(proxy.dsn) as client:
            for number in range(10):
                handle = await node.start(flows.SIGNALLED, given)
                await until_parked(store_dsn, handle.instance_id)
                proxy.cut(bind_of("signal"), before=before)
                told = await client.signal(handle.instance_id, "go", number, signal_id="s")
                assert told == "accepted" if before else told in ("duplicate", "accepted")
                assert await handle.result(20) == "after"
                assert [row[3] for row in journal(store_dsn, handle.instance_id)] == ["before", number, "after"]
            assert proxy.cuts == 10
        assert sql(store_dsn, "select count(*) from ninelives.flow_signal") == [(10,)]

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))


@both
@pytest.mark.parametrize("block", ["park", "commit_careful"])
def test_a_park_and_the_consumption_of_a_signal_survive_it(
    store_dsn: str, tmp_path: Path, block: str, before: bool
) -> None:
    given = {"log": str(tmp_path / "log")}

    async def main(proxy: Proxy) -> None:
        async with make_node(proxy.dsn, ttl_s=0.6) as node, connect(store_dsn) as client:
            for number in range(6):
                proxy.cut(bind_of(block), before=before)
                handle = await node.start(flows.SIGNALLED, given)
                await until_parked(store_dsn, handle.instance_id)
                await client.signal(handle.instance_id, "go", number)
                assert await handle.result(20) == "after"
                assert [row[3] for row in journal(store_dsn, handle.instance_id)] == ["before", number, "after"]
            assert proxy.cuts == 6
        assert len(effects(Path(given["log"]))) == 12

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))
    one_row_per_attempt(store_dsn)


@both
def test_an_end_without_a_row_is_one_end(store_dsn: str, tmp_path: Path, before: bool) -> None:
    given: dict[str, Any] = {"log": str(tmp_path / "log"), "permanent": True}

    async def main(proxy: Proxy) -> None:
        async with make_node(proxy.dsn, ttl_s=0.6) as node:
            for _ in range(6):
                proxy.cut(bind_of("finish"), before=before)
                handle = await node.start(flows.FAILING, given)
                with pytest.raises(InstanceFailed, match="no use"):
                    await handle.result(20)
            assert proxy.cuts == 6
        assert len(effects(Path(given["log"]))) == 6

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))
    one_row_per_attempt(store_dsn)


@both
def test_a_claim_whose_answer_was_lost_is_given_back_by_the_audit(
    store_dsn: str, tmp_path: Path, before: bool
) -> None:
    given = {"log": str(tmp_path / "log")}

    async def main(proxy: Proxy) -> None:
        async with make_node(proxy.dsn, ttl_s=0.6) as node, connect(store_dsn) as client:
            session_id = node.session_id
            proxy.cut(bind_of("claim"), before=before)
            handle = await client.start(flows.THREE, given)
            await until("the claim is cut", lambda: proxy.cuts == 1)
            if not before:
                assert instance(store_dsn, handle.instance_id)["holder"] in (session_id, None)
            assert await handle.result(20) == "three"
            assert node.session_id == session_id
            assert [row[4] for row in journal(store_dsn, handle.instance_id)] == [1 if before else 2] * 3
        assert len(effects(Path(given["log"]))) == 3

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))


@both
def test_an_intent_whose_answer_was_lost_is_still_one_permission(
    store_dsn: str, tmp_path: Path, before: bool
) -> None:
    given = {"log": str(tmp_path / "log")}

    async def main(proxy: Proxy) -> None:
        async with make_node(proxy.dsn, ttl_s=0.6) as node:
            for _ in range(6):
                proxy.cut(bind_of("intend"), before=before)
                handle = await node.start(flows.ONCE_BLIND, given)
                assert await handle.result(20) == "after"
            assert proxy.cuts == 6
        assert sum(line[0] == "once" for line in effects(Path(given["log"]))) == 6
        rows = sql(store_dsn, "select attempt, outcome, count(*)::int from ninelives.flow_intent group by 1, 2")
        assert rows == [(1, "committed", 6)]

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))


@both
def test_a_transactional_commit_whose_answer_was_lost_is_one_effect_and_one_row(
    store_dsn: str, tmp_path: Path, before: bool
) -> None:
    given = {"log": str(tmp_path / "log")}
    sql(store_dsn, "drop table if exists public.ledger")
    sql(store_dsn, "create table public.ledger (instance_id uuid, attempt int)")

    async def one(proxy: Proxy) -> UUID:
        # A new node each time: its first transaction sends the text of its COMMIT.
        async with make_node(proxy.dsn, ttl_s=0.6) as node:
            proxy.cut(parse_of("commit"), before=before)
            handle = await node.start(flows.LEDGER, given)
            assert await handle.result(20) == "after"
            return handle.instance_id

    async def main(proxy: Proxy) -> list[Any]:
        return [await one(proxy) for _ in range(4)]

    with Proxy(store_dsn).running() as proxy:
        made = run(main(proxy))
        assert proxy.cuts == 4
    rows = sql(store_dsn, "select instance_id, count(*)::int from public.ledger group by 1")
    assert sorted(rows) == sorted((key, 1) for key in made)
    one_row_per_attempt(store_dsn)


def test_a_pause_seen_in_doubt_about_a_commit_starts_nothing_more(store_dsn: str, tmp_path: Path) -> None:
    """I9: the transaction was cut off, the read that looks into it sees the pause, and the body does not run again."""
    given = {"log": str(tmp_path / "log"), "gate": str(tmp_path / "gate")}
    sql(store_dsn, "drop table if exists public.ledger")
    sql(store_dsn, "create table public.ledger (instance_id uuid, attempt int)")

    async def main(proxy: Proxy) -> None:
        async with make_node(proxy.dsn) as node:
            handle = await node.start(flows.LEDGER, given)
            await until("the body runs", (tmp_path / "gate.reached").exists)
            await node.pause(handle.instance_id)
            proxy.cut(parse_of("commit"), before=True)
            (tmp_path / "gate").touch()
            await until("the pause is observed", lambda: node.in_flight == 0)
            assert proxy.cuts == 1
            assert len(effects(tmp_path / "log")) == 1
            assert sql(store_dsn, "select count(*) from public.ledger") == [(0,)]
            await node.resume(handle.instance_id)
            assert await handle.result(20) == "after"
            assert sql(store_dsn, "select count(*) from public.ledger") == [(1,)]

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))


def test_a_connection_that_is_cut_while_it_is_set_up_is_a_store_that_is_unavailable(store_dsn: str) -> None:
    """It is what everybody is ready for; as another error it once ended the audit for good."""

    async def main(proxy: Proxy) -> None:
        proxy.cut(query_of("set jit = off"), before=True)
        with pytest.raises(StoreUnavailable):
            await Wire.open(proxy.dsn, {}, application_name="cut")
        proxy.cut(lambda kind, body: kind == b"P" and b"audit" in body, before=True)
        with pytest.raises(StoreUnavailable):
            await Wire.open(proxy.dsn, {"audit": "select 1"}, application_name="cut")
        assert proxy.cuts == 2

    with Proxy(store_dsn).running() as proxy:
        run(main(proxy))
