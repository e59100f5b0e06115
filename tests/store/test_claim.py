"""Claiming: what is due and nothing else, under tokens that only rise, and reading what the old holder left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.store.doors import (
    declare_dead,
    finish,
    instance,
    journal,
    locked,
    one_door,
    open_transaction,
    park,
    release,
    run,
    sql,
    step,
    two_doors,
    until_blocked,
    value,
)

from ninelives import queries

pytestmark = pytest.mark.postgres


def test_only_what_is_due_is_claimed_and_only_once(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            due, later, held, parked = [await a.start() for _ in range(4)]
            sql(
                store_dsn,
                "update ninelives.flow_wake set run_at = now() + interval '1 h' where instance_id <> %s",
                due,
            )
            sql(store_dsn, "update ninelives.flow_wake set holder = 2, run_at = null where instance_id = %s", held)
            sql(store_dsn, "update ninelives.flow_wake set run_at = null where instance_id = %s", parked)
            (claimed,) = await a.claim()
            assert (claimed.instance_id, claimed.token, claimed.seq, claimed.claims) == (due.bytes, 1, 1, 1)
            assert claimed.takeover is False
            row = instance(store_dsn, due)
            assert (row["state"], row["fence"], row["token"], row["lease_holder"]) == ("Running", 1, 1, 1)
            assert (row["holder"], row["scheduled"]) == (1, False)
            assert await a.claim() == await b.claim() == []
            assert instance(store_dsn, later)["fence"] == instance(store_dsn, held)["fence"] == 0

    run(main())


def test_two_nodes_that_claim_at_once_share_and_never_both_get_one(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            for _ in range(5):
                rows = [a.start_row(uuid4()) for _ in range(40)]
                assert set(await a.send(*rows)) == {"started"}
                shares: list[list[bytes]] = [[], []]
                while sum(map(len, shares)) < 40:
                    for share, taken in zip(shares, await asyncio.gather(a.claim(7), b.claim(7)), strict=True):
                        share += [claimed.instance_id for claimed in taken]
                assert sorted(shares[0] + shares[1]) == sorted(row.instance_id for row in rows)

    run(main())


def test_due_and_orphaned_instances_share_the_room(store_dsn: str) -> None:
    """A node with room for two and no more takes two, whatever is due besides what dead nodes held."""

    async def main() -> None:
        async with one_door(store_dsn) as door:
            rows = [door.start_row(uuid4()) for _ in range(6)]
            await door.send(*rows)
            orphans = [row.instance_id for row in rows[:1]]
            sql(store_dsn, "insert into ninelives.node_session values (99, 'gone', now(), now(), now(), now())")
            sql(
                store_dsn,
                "update ninelives.flow_wake set holder = 99, run_at = null where instance_id = %s",
                rows[0].instance_id.hex(),
            )
            first = await door.claim(limit=2, recovery_limit=2)
            assert len(first) == 2
            assert [claimed.instance_id for claimed in first if claimed.takeover] == orphans
            assert len(await door.claim(limit=2, recovery_limit=2)) == 2

    run(main())


def test_what_a_node_does_not_carry_is_never_touched_and_never_blocks_a_batch(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            second = await door.plan("order", "2")
            old = [door.start_row(uuid4()) for _ in range(60)]
            await door.send(*old)
            new = door.start_row(uuid4(), plan_id=second)
            await door.send(new)
            (claimed,) = await door.claim(limit=1, plans=[second])
            assert (claimed.instance_id, claimed.plan_id) == (new.instance_id, second)
            assert await door.claim(plans=[second]) == []
            assert value(store_dsn, "select count(*) from ninelives.flow_instance where fence <> 0") == 1
            # Nor what a dead node of another version held.
            sql(store_dsn, "update ninelives.flow_wake set holder = 99, run_at = null where plan_id <> %s", second)
            sql(
                store_dsn,
                "insert into ninelives.node_session values (99, 'gone', now(), now(), now(), now())",
            )
            assert await door.claim(plans=[second]) == []
            assert value(store_dsn, "select count(*) from ninelives.flow_instance where fence <> 0") == 1
            assert len(await door.claim(limit=0, recovery_limit=100, plans=[second, door.plan_id])) == 60

    run(main())


def test_the_wakes_of_a_dead_session_are_due_and_those_of_a_living_one_are_not(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            assert await b.claim() == []
            declare_dead(store_dsn, 1)
            (second,) = await b.claim(limit=0)
            assert (second.instance_id, second.token, second.takeover) == (first.instance_id, 2, True)
            assert await a.send(step(first)) == ["fenced"]
            assert await b.send(step(second)) == ["committed"]

    run(main())


@pytest.mark.parametrize("column", ["dead_at", "expires_at"])
def test_a_dead_session_claims_nothing(store_dsn: str, column: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            await b.started_and_claimed()
            await a.start()
            past = "clock_timestamp() - interval '1 s'"
            sql(store_dsn, f"update ninelives.node_session set {column} = {past} where session_id = 1".encode())
            declare_dead(store_dsn, 2)
            assert await a.claim() == []
            assert value(store_dsn, "select max(fence) from ninelives.flow_instance") == 1

    run(main())


def test_a_paused_instance_rests_at_the_claim_and_comes_back_with_the_resume(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            made = await door.start()
            assert await door.control.pause(made.bytes) == "Pending"
            assert await door.claim() == []
            row = instance(store_dsn, made)
            assert (row["holder"], row["scheduled"], row["fence"]) == (None, False, 0)
            assert await door.claim() == []
            assert await door.control.resume(made.bytes) == "Pending"
            (claimed,) = await door.claim()
            assert (claimed.token, claimed.seq) == (1, 2)

    run(main())


def test_a_resume_that_commits_while_a_claim_runs_is_not_put_to_rest(store_dsn: str) -> None:
    """The claim's snapshot still shows the pause; its lock is taken behind the resume. The wake must survive."""

    async def main() -> None:
        async with one_door(store_dsn) as door:
            made = await door.start()
            await door.control.pause(made.bytes)
            with gate_behind_the_snapshot(store_dsn) as opened, resume_in_the_open(store_dsn, made) as resume:
                claim = asyncio.ensure_future(door.claim())
                await until_blocked(store_dsn)
                resume.commit()
                opened()
                taken = await claim
            assert [claimed.token for claimed in taken or await door.claim()] == [1]

    run(main())


@contextmanager
def gate_behind_the_snapshot(dsn: str) -> Iterator[Callable[[], None]]:
    """Stop every claim between its snapshot and its first lock, until the function is called."""
    key = 9_119
    with psycopg.connect(dsn, autocommit=True) as keeper:
        keeper.execute("select pg_advisory_lock(%s)", [key])
        keeper.execute("alter table ninelives.node_session rename to node_session_kept")
        keeper.execute(
            b"create view ninelives.node_session as select * from ninelives.node_session_kept"
            b" where pg_advisory_xact_lock_shared(%d) is not null" % key
        )

        def open_gate() -> None:
            keeper.execute("select pg_advisory_unlock(%s)", [key])

        try:
            yield open_gate
        finally:
            keeper.execute("drop view ninelives.node_session")
            keeper.execute("alter table ninelives.node_session_kept rename to node_session")


@contextmanager
def resume_in_the_open(dsn: str, made: UUID) -> Iterator[psycopg.Connection]:
    """A resume that has made its changes and not committed them."""
    texts = queries.load("ninelives")
    with psycopg.connect(dsn, cursor_factory=psycopg.RawCursor) as connection:
        for block in ("wake", "resume"):
            connection.execute(texts[block].encode(), [made])
        yield connection


def test_a_paused_instance_of_a_dead_session_rests_too(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            claimed = await a.started_and_claimed()
            await a.control.pause(claimed.instance_id)
            declare_dead(store_dsn, 1)
            assert await b.claim() == []
            row = instance(store_dsn, claimed)
            assert (row["holder"], row["scheduled"], row["fence"]) == (None, False, 1)
            await b.control.resume(claimed.instance_id)
            assert [taken.token for taken in await b.claim()] == [2]

    run(main())


def test_a_claim_that_waited_for_a_commit_reads_the_step_that_it_committed(store_dsn: str) -> None:
    """PROTOCOL R2: the old holder's transaction is open while the claim runs; its row must be in the read."""
    insert = (
        "insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, step_id, attempt,"
        " scope, capability_id, capability_version, outcome, result) values"
        " (%s, 1, 1, 0, now(), 1, 1, '', 'pay', '1', 'Success', '\"late\"')"
    )

    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            key = UUID(bytes=first.instance_id)
            declare_dead(store_dsn, 1)
            with locked(store_dsn, key) as holder:
                holder.execute(insert, [key])
                holder.execute(
                    "update ninelives.flow_instance set next_sequence = 2 where instance_id = %s and fence = 1", [key]
                )
                claim = asyncio.ensure_future(b.claim())
                await until_blocked(store_dsn)
                holder.commit()
                (second,) = await claim
            assert [(read.step_id, read.result) for read in second.steps] == [(1, b'"late"')]
            assert second.token == 2

    run(main())


def test_a_claim_that_waited_for_the_end_of_the_instance_takes_nothing(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            key = UUID(bytes=first.instance_id)
            declare_dead(store_dsn, 1)
            # Finished behind the back of the wake row: what a takeover must survive all the same.
            with locked(store_dsn, key) as holder:
                holder.execute(
                    "update ninelives.flow_instance set state = 'Completed', finished_at = now(), result = '7'"
                    " where instance_id = %s",
                    [key],
                )
                claim = asyncio.ensure_future(b.claim())
                await until_blocked(store_dsn)
                holder.commit()
                assert await claim == []
            row = instance(store_dsn, key)
            assert (row["state"], row["fence"], row["result"]) == ("Completed", 1, 7)

    run(main())


def test_a_locked_wake_is_skipped_and_does_not_hold_up_the_others(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            first, second = await door.start(), await door.start()
            query = "select from ninelives.flow_wake where instance_id = %s for update"
            with open_transaction(store_dsn, query, first):
                assert [claimed.instance_id for claimed in await door.claim()] == [second.bytes]
            assert [claimed.instance_id for claimed in await door.claim()] == [first.bytes]

    run(main())


def test_tokens_rise_over_every_way_of_changing_hands_and_the_lease_row_stays(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            tokens = []
            claimed = await a.started_and_claimed()
            tokens.append(claimed.token)
            assert await a.send(release(claimed)) == ["released"]
            (claimed,) = await b.claim()
            tokens.append(claimed.token)
            assert await b.send(park(claimed, delay_ms=0)) == ["parked"]
            (claimed,) = await a.claim()
            tokens.append(claimed.token)
            declare_dead(store_dsn, 1)
            (claimed,) = await b.claim()
            tokens.append(claimed.token)
            # Whichever of the two is ahead decides (PROTOCOL R6).
            sql(store_dsn, "update ninelives.flow_lease set token = 40")
            assert await b.send(release(claimed)) == ["not holder"]
            declare_dead(store_dsn, 2)
            b.session_id = 3
            sql(
                store_dsn,
                "insert into ninelives.node_session select 3, 'b', server_start, opened_at, expires_at"
                " from ninelives.node_session where session_id = 2",
            )
            (claimed,) = await b.claim()
            tokens.append(claimed.token)
            assert tokens == [1, 2, 3, 4, 41]
            assert await b.send(finish(claimed)) == ["finished"]
            assert sql(store_dsn, "select token, holder from ninelives.flow_lease") == [(41, None)]

    run(main())


def test_a_release_gives_the_claim_back_uncounted_and_a_takeover_counts(store_dsn: str) -> None:
    """B07: claims without a commit are counted when they are taken; leaving in order is no failure."""

    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            claimed = await a.started_and_claimed()
            for _ in range(10):
                assert await a.send(release(claimed)) == ["released"]
                (claimed,) = await a.claim()
                assert claimed.claims == 1
            declare_dead(store_dsn, 1)
            (claimed,) = await b.claim()
            assert claimed.claims == 2
            assert await b.send(step(claimed)) == ["committed"]
            assert instance(store_dsn, claimed)["claims"] == 0

    run(main())


def test_a_release_by_anyone_but_the_holder_changes_nothing(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            assert await b.send(release(first)) == ["not holder"]
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            assert await a.send(release(first)) == ["not holder"]
            assert instance(store_dsn, second)["holder"] == 2
            assert journal(store_dsn, second) == []
            assert await b.send(release(second)) == ["released"]
            row = instance(store_dsn, second)
            assert (row["state"], row["holder"], row["scheduled"]) == ("Running", None, True)

    run(main())


def test_the_read_brings_snapshot_rows_signals_and_open_intents(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            first = step(claimed, 1, result=b'"one"')
            first.frontier = b'{"v":1}'
            assert await door.send(first) == ["committed"]
            failed = step(claimed, 2, outcome=b"Failure", result=b'{"message":"no"}')
            failed.retry_ms = 3_600_000
            assert await door.send(failed) == ["committed"]
            await door.control.signal(claimed.instance_id, "s1", "go", b'"payload"')
            assert await door.send(release(claimed)) == ["released"]
            (again,) = await door.claim()
            assert again.frontier == b'{"v":1}'
            assert await door.control.results(claimed.instance_id, [("", 1), ("", 2), ("", 9)]) == [("", 1, b'"one"')]
            (row,) = again.steps
            assert (row.step_id, row.outcome, row.result, row.sequence) == (2, "Failure", b'{"message":"no"}', 2)
            assert 3_500_000 < row.retry_in_ms <= 3_600_000
            assert [(signal.signal_id, signal.name, signal.payload) for signal in again.signals] == [
                ("s1", "go", b'"payload"')
            ]

    run(main())
