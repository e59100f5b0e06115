"""Starting: one row for an id whatever races, the same answer for all, and a conflict only for another input."""

from __future__ import annotations

import asyncio
import random
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.store.doors import (
    declare_dead,
    instance,
    one_door,
    open_transaction,
    run,
    sql,
    step,
    two_doors,
    until_blocked,
    value,
)

from ninelives import Flow, InstanceConflict, StoreUnavailable, capability, connect

pytestmark = pytest.mark.postgres

RACERS = 16
ROUNDS = 5
_SPAWN = get_context("spawn")


@capability("nothing", version="1")
async def nothing(call: object, input: object) -> object:
    return input


ONE_STEP = Flow("one-step", version="1").step("only", nothing)


def race(dsn: str, barrier: Barrier, ids: list[str], folder: str, number: int) -> None:
    """Start every id from many tasks on connections of their own, at the same time as the other process."""

    async def main() -> list[str]:
        clients = [connect(dsn) for _ in range(4)]
        for client in clients:
            await client.open()
        told: list[str] = []
        for text in ids:
            await asyncio.to_thread(barrier.wait, 20.0)
            handles = await asyncio.gather(
                *(clients[n % 4].start(ONE_STEP, {"n": 1}, instance_id=UUID(text)) for n in range(RACERS))
            )
            told += [str(handle.instance_id) for handle in handles]
        for client in clients:
            await client.close()
        return told

    Path(folder, str(number)).write_text("\n".join(asyncio.run(main())))


def test_32_racers_in_two_processes_start_one_instance_and_all_get_its_handle(store_dsn: str, tmp_path: Path) -> None:
    ids = [str(uuid4()) for _ in range(ROUNDS)]
    barrier = _SPAWN.Barrier(2)
    racers = [
        _SPAWN.Process(target=race, args=(store_dsn, barrier, ids, str(tmp_path), number), daemon=True)
        for number in range(2)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(30.0)
    assert [racer.exitcode for racer in racers] == [0, 0]
    told = [path.read_text().split("\n") for path in tmp_path.iterdir()]
    assert told == [[text for text in ids for _ in range(RACERS)]] * 2
    rows = sql(store_dsn, "select instance_id::text from ninelives.flow_instance")
    assert sorted(row[0] for row in rows) == sorted(ids)
    assert value(store_dsn, "select count(*) from ninelives.flow_wake") == ROUNDS


@pytest.mark.parametrize("hold", [False, True])
def test_a_start_waits_for_the_winner_s_open_transaction_and_then_tells_that_it_exists(
    store_dsn: str, hold: bool
) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            known = uuid4()
            await a.start(known)
            other = uuid4()
            copy = (
                "insert into ninelives.flow_instance (instance_id, plan_id, fence, next_sequence, snapshot_sequence,"
                " version, claims, paused, state, created_at, updated_at, flow_id, flow_version, input)"
                " select %s, plan_id, fence, next_sequence, snapshot_sequence, version, claims, paused, state,"
                " created_at, updated_at, flow_id, flow_version, input from ninelives.flow_instance"
                " where instance_id = %s"
            )
            with open_transaction(store_dsn, copy, other, known) as winner:
                same = asyncio.ensure_future(b.send(b.start_row(other, hold=hold)))
                await until_blocked(store_dsn)
                assert not same.done()
                winner.commit()
                assert await same == ["exists"]
            with open_transaction(store_dsn, copy, third := uuid4(), known) as winner:
                new = asyncio.ensure_future(b.send(b.start_row(third, hold=hold)))
                await until_blocked(store_dsn)
                winner.rollback()
                assert await new == ["held" if hold else "started"]

    run(main())


def test_another_input_is_a_conflict_and_another_order_of_keys_is_not(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            made = uuid4()
            rows = [
                door.start_row(made, text)
                for text in (b'{"a":1,"b":[1,2]}', b'{"b":[1,2],"a":1}', b'{"a":1,"b":[2,1]}', b'{"a":1,"b":[1,2.5]}')
            ]
            for row, verdict in zip(rows, ["started", "exists", "conflict", "conflict"], strict=True):
                assert await door.send(row) == [verdict]
            assert instance(store_dsn, made)["input"] == {"a": 1, "b": [1, 2]}

    run(main())


def test_two_inputs_for_one_id_in_one_batch_are_one_start_and_one_conflict(store_dsn: str) -> None:
    """Whichever row the server takes first, the verdicts must say so: 200 rows make it sort."""

    async def main() -> None:
        async with one_door(store_dsn) as door:
            ids = [uuid4() for _ in range(100)]
            rows = [door.start_row(made, text) for text in (b"1", b"2") for made in ids]
            random.Random(3).shuffle(rows)
            verdicts = await door.send(*rows)
            stored = dict(sql(store_dsn, "select instance_id, input from ninelives.flow_instance"))
            for row, verdict in zip(rows, verdicts, strict=True):
                right = stored[UUID(bytes=row.instance_id)] == int(row.input)
                assert verdict == ("started" if right else "conflict")

    run(main())


def test_a_start_after_the_end_returns_the_old_instance(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            made = await door.start(hold=False)
            (claimed,) = await door.claim()
            assert await door.send(step(claimed, result=b'"paid"', finish=b"Completed")) == ["committed"]
            for hold in (False, True):
                row = door.start_row(made, hold=hold)
                assert await door.send(row) == ["exists"]
                assert row.state == "Completed"
            assert instance(store_dsn, made)["wake"] is False

    run(main())


def test_a_held_start_takes_the_lease_and_a_dead_session_only_starts(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            held = await a.start(hold=True)
            row = instance(store_dsn, held)
            assert (row["fence"], row["token"], row["holder"], row["scheduled"]) == (1, 1, 1, False)
            assert await b.claim() == []
            declare_dead(store_dsn, 1)
            orphan = a.start_row(uuid4(), hold=True)
            assert await a.send(orphan) == ["started"]
            row = instance(store_dsn, UUID(bytes=orphan.instance_id))
            assert (row["fence"], row["holder"], row["scheduled"]) == (0, None, True)
            assert {claimed.instance_id for claimed in await b.claim()} == {held.bytes, orphan.instance_id}

    run(main())


def test_a_start_under_an_id_whose_lease_outlived_it_gets_a_higher_token(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            held, plain = uuid4(), uuid4()
            for made in (held, plain):
                sql(store_dsn, "insert into ninelives.flow_lease (instance_id, token) values (%s, 41)", made)
            row = door.start_row(held, hold=True)
            assert await door.send(row) == ["held"]
            assert row.token == 42
            await door.start(plain)
            (claimed,) = await door.claim()
            assert (claimed.instance_id, claimed.token) == (plain.bytes, 42)

    run(main())


def test_a_start_that_a_closing_client_leaves_unanswered_is_told_so(store_dsn: str) -> None:
    async def main() -> None:
        async with connect(store_dsn) as client:
            made = (await client.start(ONE_STEP, {})).instance_id
            query = "delete from ninelives.flow_instance where instance_id = %s"
            with open_transaction(store_dsn, query, made):
                waiting = asyncio.ensure_future(client.start(ONE_STEP, {}, instance_id=made))
                await until_blocked(store_dsn)
                await client.close()
                with pytest.raises(StoreUnavailable, match="unknown"):
                    await waiting
            with pytest.raises(StoreUnavailable):
                await client.start(ONE_STEP, {})

    run(main())


def test_the_client_raises_a_typed_conflict_and_returns_the_handle_otherwise(store_dsn: str) -> None:
    async def main() -> None:
        async with connect(store_dsn) as client:
            made = uuid4()
            first = await client.start(ONE_STEP, {"a": 1, "b": 2}, instance_id=made)
            again = await client.start(ONE_STEP, {"b": 2, "a": 1}, instance_id=made)
            assert first.instance_id == again.instance_id == made
            with pytest.raises(InstanceConflict, match=str(made)) as caught:
                await client.start(ONE_STEP, {"a": 1, "b": 3}, instance_id=made)
            assert caught.value.code == "instance.conflict"

    run(main())
