"""B40, B42: backends ended at random, stingy time-outs, a server that crashes: the node goes on by itself."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.node import flows
from tests.node.flows import effects
from tests.node.helpers import child, make_node, run, sql, until, until_state

from ninelives import Node, StoreUnavailable, connect
from ninelives.migrate import migrate
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory

pytestmark = pytest.mark.postgres


def all_ended_once(dsn: str, count: int) -> None:
    """Everything completed, three rows each without a gap."""
    assert sql(dsn, "select state, count(*)::int from ninelives.flow_instance group by 1") == [("Completed", count)]
    assert sql(dsn, "select count(*) from ninelives.flow_wake") == [(0,)]
    rows = (
        "select count(*)::int from (select instance_id from ninelives.flow_step group by instance_id"
        " having count(*) = 3 and min(sequence) = 1 and max(sequence) = 3 and count(distinct step_id) = 3) x"
    )
    assert sql(dsn, rows) == [(count,)]


def has_new_session(node: Node, before: int) -> bool:
    """Tell whether the node has a session again, and another one."""
    return node.session_id not in (0, before)


def test_backends_terminated_at_random_cost_no_flow_and_no_second_row(
    store_dsn: str, tmp_path: Path, seed: int
) -> None:
    given = {"log": str(tmp_path / "log")}
    chance = random.Random(seed)
    victims = (
        "select pid from pg_stat_activity where application_name like 'ninelives%' and datname = current_database()"
        " and pid <> pg_backend_pid() order by pid"
    )

    async def terminate(rounds: int) -> None:
        with psycopg.connect(store_dsn, autocommit=True) as killer:
            for number in range(rounds):
                pids = [row[0] for row in killer.execute(victims)]
                chosen = pids if number % 5 == 4 else chance.sample(pids, min(2, len(pids)))
                for pid in chosen:
                    killer.execute("select pg_terminate_backend(%s)", [pid])
                await asyncio.sleep(0.05)

    async def main() -> None:
        async with make_node(store_dsn, ttl_s=0.9) as node:
            ending = asyncio.ensure_future(terminate(20))
            handles = []
            while not ending.done():
                handles += await asyncio.gather(*(node.start(flows.THREE, given) for _ in range(10)))
                await asyncio.sleep(0.01)
            await ending
            for handle in handles:
                await until_state(store_dsn, handle.instance_id, "Completed")
            all_ended_once(store_dsn, len(handles))
            alive = "select count(*)::int from ninelives.node_session where dead_at is null"
            await until("one living session", lambda: sql(store_dsn, alive) == [(1,)])
            idle = "select count(*) from pg_stat_activity where state = 'idle in transaction'"
            await until("nothing idle in a transaction", lambda: sql(store_dsn, idle) == [(0,)])

    run(main())


def test_stingy_time_outs_of_the_role_fail_no_step(store_dsn: str, tmp_path: Path) -> None:
    given = {"log": str(tmp_path / "log"), "gate": str(tmp_path / "gate")}
    role = "stingy"
    sql(store_dsn, f"drop role if exists {role}".encode())
    sql(store_dsn, f"create role {role} login superuser".encode())
    for setting in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        sql(store_dsn, f"alter role {role} set {setting} = '200ms'".encode())
    dsn = make_conninfo(store_dsn, user=role)

    async def hold_locks(rounds: int) -> None:
        for _ in range(rounds):
            with psycopg.connect(store_dsn) as holder:
                holder.execute("lock table ninelives.flow_step, ninelives.flow_wake, ninelives.node_session")
                await asyncio.sleep(0.5)
            await asyncio.sleep(0.05)

    async def main() -> None:
        async with make_node(dsn, ttl_s=3.0) as node, connect(dsn) as client:
            holding = asyncio.ensure_future(hold_locks(3))
            handles = [await node.start(flows.GATED, given) for _ in range(10)]
            handles += [await client.start(flows.THREE, given) for _ in range(10)]
            await holding
            (tmp_path / "gate").touch()
            for handle in handles:
                assert await handle.result(20) in ("after", "three")
            all_ended_once(store_dsn, 20)
            assert sql(store_dsn, "select count(*) from ninelives.flow_step where outcome <> 'Success'") == [(0,)]

    run(main())


def test_a_crash_of_the_server_under_two_nodes_loses_nothing(run_directory: RunDirectory, tmp_path: Path) -> None:
    """In-flight commits are sent again; sessions of before the crash are judged by their expiry alone."""
    given: dict[str, Any] = {"log": str(tmp_path / "log")}
    with PostgresServer.create(run_directory, name="crashing") as server:
        dsn = server.dsn
        migrate(dsn)

        async def load(node: Node, number: int) -> list[Any]:
            return await asyncio.gather(*(node.start(flows.THREE, given) for _ in range(number)))

        async def main() -> None:
            with child(dsn, ttl_s=1.0) as other:
                async with make_node(dsn, ttl_s=1.0) as node, connect(dsn) as client:
                    await load(node, 50)
                    for _ in range(50):
                        await client.start(flows.THREE, given)
                    for _ in range(2):
                        before = node.session_id
                        starting = asyncio.ensure_future(load(node, 30))
                        await asyncio.to_thread(server.crash)
                        await asyncio.to_thread(server.start)
                        await asyncio.wait_for(starting, 20)
                        await until("a new session", partial(has_new_session, node, before))
                    done = "select count(*)::int from ninelives.flow_instance where state = 'Completed'"
                    await until("all ended", lambda: sql(dsn, done) == [(160,)])
                    all_ended_once(dsn, 160)
                    alive = "select count(*)::int from ninelives.node_session where dead_at is null"
                    await until("two living sessions", lambda: sql(dsn, alive) == [(2,)])
                    await load(node, 1)
                assert other.process.poll() is None
                assert await asyncio.to_thread(other.terminate) == 0
            assert len(effects(tmp_path / "log")) >= 480

        run(main())


def test_a_node_that_cannot_reach_the_server_says_so_at_once() -> None:
    async def main() -> None:
        with pytest.raises(StoreUnavailable):
            async with make_node("host=127.0.0.1 port=1 dbname=nothing connect_timeout=2"):
                pass

    run(main())
