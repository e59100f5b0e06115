"""Nodes in processes of their own that are killed, frozen or told to leave: others go on, nothing runs twice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.node import flows
from tests.node.flows import effects
from tests.node.helpers import (
    child,
    instance,
    journal,
    make_node,
    run,
    sql,
    until,
    until_parked,
    until_state,
)

from ninelives import InstanceFailed, connect

pytestmark = [pytest.mark.postgres, pytest.mark.chaos]


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    return {"log": str(tmp_path / "log"), "gate": str(tmp_path / "gate")}


def dead(dsn: str, session_id: int) -> bool:
    query = "select dead_at is not null from ninelives.node_session where session_id = %s"
    return sql(dsn, query, session_id) == [(True,)]


def test_a_killed_node_is_declared_dead_at_once_and_its_instances_go_on(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """With a TTL of 30 s: what is seen within seconds was seen through the lock."""

    async def main() -> None:
        with child(store_dsn) as victim:
            async with connect(store_dsn) as client:
                handles = [await client.start(flows.GATED, given) for _ in range(5)]
                waits = lambda: sum(line[0] == "wait" for line in effects(tmp_path / "log")) == 5  # noqa: E731
                await until("all five wait in the child", waits)
                async with make_node(store_dsn) as node:
                    began = time.monotonic()
                    victim.kill()
                    await until("declared dead", lambda: dead(store_dsn, victim.session_id), 5.0)
                    await until("taken over", lambda: node.takeovers == 5, 5.0)
                    assert time.monotonic() - began < 5.0
                    (tmp_path / "gate").touch()
                    for handle in handles:
                        assert await handle.result(20) == "after"
                        assert [row[4] for row in journal(store_dsn, handle.instance_id)] == [1, 2, 2]
        lines = effects(tmp_path / "log")
        assert [sum(line[0] == name for line in lines) for name in ("before", "wait", "after")] == [5, 10, 5]

    run(main())


def test_a_frozen_node_is_left_alone_until_its_ttl_and_is_fenced_afterwards(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """B03: the loser wakes up, its commit is refused, and it starts nothing more under the old token."""
    ttl_s = 2.0

    async def main() -> None:
        with child(store_dsn, ttl_s=ttl_s) as frozen:
            async with connect(store_dsn) as client:
                handle = await client.start(flows.GATED, given)
                await until("it waits in the child", (tmp_path / "gate.reached").exists)
                frozen.stop()
                expiry = "select clock_timestamp() < expires_at from ninelives.node_session where session_id = %s"
                async with make_node(store_dsn, ttl_s=ttl_s) as node:
                    early = True
                    while not dead(store_dsn, frozen.session_id):
                        early = sql(store_dsn, expiry, frozen.session_id)[0][0]
                        await asyncio.sleep(0.02)
                    assert early is False or sql(store_dsn, expiry, frozen.session_id) == [(False,)]
                    (tmp_path / "gate").touch()
                    assert await handle.result(20) == "after"
                    rows = journal(store_dsn, handle.instance_id)
                    assert [row[4] for row in rows] == [1, 2, 2]
                    assert node.takeovers == 1
                    frozen.go_on()
                    fresh = "select count(*)::int from ninelives.node_session where dead_at is null"
                    await until("the thawed node has a new session", lambda: sql(store_dsn, fresh) == [(2,)])
                    assert journal(store_dsn, handle.instance_id) == rows
                second = await client.start(flows.THREE, given)
                assert await second.result(20) == "three"
        lines = effects(tmp_path / "log")
        assert [line[0] for line in lines if line[3] == frozen.pid] == ["before", "wait", "one", "two", "three"]
        assert [line[0] for line in lines if line[3] != frozen.pid] == ["wait", "after"]

    run(main())


def test_a_session_declared_dead_by_mistake_is_replaced_and_the_node_goes_on(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with make_node(store_dsn, ttl_s=0.6) as node:
            handle = await node.start(flows.GATED, given)
            await until("it waits", (tmp_path / "gate.reached").exists)
            before = node.session_id
            sql(store_dsn, "update ninelives.node_session set dead_at = clock_timestamp()")
            await until("a new session", lambda: node.session_id not in (0, before))
            (tmp_path / "gate").touch()
            assert await handle.result(20) == "after"
            assert [row[4] for row in journal(store_dsn, handle.instance_id)][-1] == 2
            assert await (await node.start(flows.THREE, given)).result(20) == "three"
            assert sql(store_dsn, "select count(*)::int from ninelives.node_session where dead_at is null") == [(1,)]

    run(main())


def test_sigterm_gives_the_leases_back_at_once_and_exits_0(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """B17: no TTL passes (30 s), and nothing is claimed after the signal, though the other node leaves work."""

    async def main() -> None:
        with child(store_dsn, drain_s=0.3) as leaving:
            async with connect(store_dsn) as client:
                handles = [await client.start(flows.GATED, given) for _ in range(3)]
                waits = lambda: sum(line[0] == "wait" for line in effects(tmp_path / "log")) == 3  # noqa: E731
                await until("all three wait in the child", waits)
                leaving.process.terminate()
                held = "select count(*)::int from ninelives.flow_wake where holder = %s"
                await until("leases given back", lambda: sql(store_dsn, held, leaving.session_id) == [(0,)], 10.0)
                late = await client.start(flows.THREE, given)
                assert await asyncio.to_thread(leaving.process.wait, 20) == 0
                assert instance(store_dsn, late.instance_id)["fence"] == 0
                assert dead(store_dsn, leaving.session_id)
                async with make_node(store_dsn) as node:
                    (tmp_path / "gate").touch()
                    for handle in [*handles, late]:
                        await handle.result(10)
                    assert node.takeovers == 0
                    for handle in handles:
                        # A drain uses no claim up (B07).
                        assert [row[4] for row in journal(store_dsn, handle.instance_id)] == [1, 2, 2]

    run(main())


def test_sigterm_lets_a_step_in_flight_end(store_dsn: str, given: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        with child(store_dsn, drain_s=20.0) as leaving:
            async with connect(store_dsn) as client:
                handle = await client.start(flows.GATED, given)
                await until("it waits in the child", (tmp_path / "gate.reached").exists)
                leaving.process.terminate()
                (tmp_path / "gate").touch()
                assert await asyncio.to_thread(leaving.process.wait, 20) == 0
                row = instance(store_dsn, handle.instance_id)
                assert (row["next_sequence"], row["holder"], row["scheduled"], row["claims"]) == (3, None, True, 0)
        assert [line[0] for line in effects(tmp_path / "log")] == ["before", "wait"]

    run(main())


async def poison_and_others(dsn: str, given: dict[str, Any], bystanders: int, later: int) -> None:
    """Let three nodes die of a poison instance; `bystanders` share its claims, `later` ones come behind it."""
    async with connect(dsn) as client:
        poison = await client.start(flows.DEADLY, given)
        others = [await client.start(flows.THREE, given) for _ in range(bystanders)]
        for _ in range(3):
            with child(dsn, claims_max=3) as victim:
                assert await asyncio.to_thread(victim.process.wait, 20) == -9
        others += [await client.start(flows.THREE, given) for _ in range(later)]
        async with make_node(dsn, claims_max=3):
            with pytest.raises(InstanceFailed, match="claimed 3 times") as caught:
                await poison.result(20)
            assert caught.value.error["code"] == "instance.poison"
            for other in others:
                assert await other.result(20) == "three"
    assert sum(line[0] == "die" for line in effects(Path(given["log"]))) == 3


def test_an_instance_that_kills_its_node_ends_after_exactly_three_claims(
    store_dsn: str, given: dict[str, Any]
) -> None:
    """B07."""
    run(poison_and_others(store_dsn, given, bystanders=0, later=20))


def test_what_is_claimed_together_with_a_poison_instance_is_not_failed_with_it(
    store_dsn: str, given: dict[str, Any]
) -> None:
    """B07: claimed in one batch, killed together three times before a first commit, and innocent."""
    run(poison_and_others(store_dsn, given, bystanders=20, later=0))


def test_a_node_never_touches_a_version_that_it_does_not_carry(
    store_dsn: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """B06: the old version waits, untouched and visible, until a node that carries it comes."""

    async def main() -> None:
        async with connect(store_dsn) as client:
            old = await client.start(flows.GATED, given)
            with child(store_dsn, ["GATED"]) as victim:
                await until("it waits in the child", (tmp_path / "gate.reached").exists)
                victim.kill()
            pending = await client.start(flows.THREE, given)
            before = [instance(store_dsn, handle.instance_id) for handle in (old, pending)]
            async with make_node(store_dsn, [flows.THREE_V2]) as node:
                await until("the dead one is seen", lambda: dead(store_dsn, victim.session_id))
                for _ in range(10):
                    assert await (await client.start(flows.THREE_V2, given)).result(10) == "only"
                assert node.takeovers == 0
            after = [instance(store_dsn, handle.instance_id) for handle in (old, pending)]
            same = ("fence", "token", "claims", "state", "holder", "seq")
            assert [[row[name] for name in same] for row in before] == [[row[name] for name in same] for row in after]
            (tmp_path / "gate").touch()
            async with make_node(store_dsn, [flows.GATED, flows.THREE]):
                assert await old.result(10) == "after"
                assert await pending.result(10) == "three"

    run(main())


def test_a_parked_instance_survives_its_node_and_is_woken_on_another(store_dsn: str, given: dict[str, Any]) -> None:
    async def main() -> None:
        async with connect(store_dsn) as client:
            with child(store_dsn) as first:
                handle = await client.start(flows.SIGNALLED, given)
                await until_parked(store_dsn, handle.instance_id)
                first.kill()
            await client.signal(handle.instance_id, "go", {"n": 1})
            async with make_node(store_dsn) as node:
                assert await handle.result(10) == "after"
                assert node.takeovers == 0
            await until_state(store_dsn, handle.instance_id, "Completed")

    run(main())


def test_suspects_follow_each_other_without_waiting_for_the_poll(store_dsn: str, given: dict[str, Any]) -> None:
    """One is taken at a time; the commit of one must bring the look for the next."""

    async def main() -> None:
        async with connect(store_dsn) as client:
            handles = [await client.start(flows.THREE, given) for _ in range(5)]
            sql(store_dsn, "insert into ninelives.node_session values (99, 'gone', now(), now(), now(), now())")
            sql(store_dsn, "update ninelives.flow_wake set holder = 99, run_at = null")
            sql(store_dsn, "update ninelives.flow_instance set claims = 7")
            async with make_node(store_dsn, poll_s=3600.0):
                for handle in handles:
                    await handle.result(20)

    run(main())
