"""The group commit: each row by its own fence, a resend is a success, and a bad row harms nobody but itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from tests.store.doors import (
    Door,
    declare_dead,
    finish,
    instance,
    intend,
    journal,
    locked,
    one_door,
    run,
    sql,
    step,
    two_doors,
    until_blocked,
    value,
)

from ninelives.store.lane import Lane
from ninelives.store.rows import Claimed, Row, StepCommit

pytestmark = pytest.mark.postgres


async def claim_many(door: Door, count: int) -> list[Claimed]:
    rows = [door.start_row(uuid4()) for _ in range(count)]
    assert set(await door.send(*rows)) == {"started"}
    return await door.claim(count)


def test_a_commit_under_an_old_token_is_fenced_and_writes_nothing(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            for late in (step(first), step(first, finish=b"Completed"), finish(first)):
                assert await a.send(late) == ["fenced"]
            assert journal(store_dsn, first) == []
            row = instance(store_dsn, first)
            assert (row["state"], row["next_sequence"], row["wake"]) == ("Running", 1, True)
            assert await b.send(step(second, result=b'"b"')) == ["committed"]
            assert await a.send(step(first, result=b'"a"')) == ["fenced"]
            assert [entry[3:] for entry in journal(store_dsn, first)] == [("b", 2)]

    run(main())


@pytest.mark.parametrize(
    "rows_of",
    [
        lambda claimed: [step(claimed)],
        lambda claimed: [step(claimed, 1), step(claimed, 2)],
        lambda claimed: [step(claimed, finish=b"Completed")],
        lambda claimed: [finish(claimed)],
        lambda claimed: [intend(claimed)],
    ],
    ids=["one-row", "two-rows", "last-row", "end", "intent"],
)
def test_what_waited_for_the_takeover_is_fenced_by_it(
    store_dsn: str, rows_of: Callable[[Claimed], list[Row]]
) -> None:
    """It is on the server before the takeover commits, and must be judged by what it finds after it."""

    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            with locked(store_dsn, claimed) as taker:
                sent = asyncio.ensure_future(door.send(*rows_of(claimed)))
                await until_blocked(store_dsn)
                taker.execute("update ninelives.flow_instance set fence = fence + 1")
                taker.commit()
                assert set(await sent) == {"fenced"}
            assert journal(store_dsn, claimed) == []
            assert instance(store_dsn, claimed)["state"] == "Running"
            assert value(store_dsn, "select count(*) from ninelives.flow_intent") == 0

    run(main())


def test_nothing_goes_into_a_finished_instance(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            assert await door.send(step(claimed, 1, finish=b"Completed")) == ["committed"]
            before = instance(store_dsn, claimed)
            assert (before["state"], before["wake"], before["lease_holder"]) == ("Completed", False, None)
            assert await door.send(step(claimed, 2)) == ["terminal"]
            assert await door.send(finish(claimed, b"Failed")) == ["terminal"]
            assert await door.send(step(claimed, 2, finish=b"Failed")) == ["terminal"]
            assert instance(store_dsn, claimed) == before

    run(main())


def test_a_whole_batch_sent_twice_is_one_row_each_and_a_success_both_times(store_dsn: str) -> None:
    """PROTOCOL R4, as after a lost answer: running, ending and failing rows, and ends without a row."""

    async def main() -> None:
        async with one_door(store_dsn) as door:
            many = await claim_many(door, 12)
            failed = finish(many[11])

            def batch() -> list[StepCommit]:
                rows = [step(claimed, 1, result=b'"same"') for claimed in many[:11]]
                for row in rows[:4]:
                    row.finish, row.finish_result = b"Completed", row.result
                rows[4].outcome, rows[4].retry_ms = b"Failure", 100
                return rows

            assert set(await door.send(*batch())) == {"committed"}
            assert await door.send(failed) == ["finished"]
            before = sql(store_dsn, "select * from ninelives.flow_step order by instance_id")
            for _ in range(2):
                assert set(await door.send(*batch())) == {"committed"}
                assert await door.send(finish(many[11])) == ["finished"]
            assert sql(store_dsn, "select * from ninelives.flow_step order by instance_id") == before
            assert len(before) == 11
            assert value(store_dsn, "select count(*) from ninelives.flow_instance where finished_at is not null") == 5

    run(main())


def test_a_resent_row_is_a_success_even_after_another_node_took_over(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            assert await a.send(step(first, 1)) == ["committed"]
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            assert await a.send(step(first, 1), step(first, 2)) == ["committed", "fenced"]
            assert await b.send(step(second, 1)) == ["duplicate"]
            assert [entry[4] for entry in journal(store_dsn, first)] == [1]

    run(main())


def test_several_rows_of_one_instance_in_one_batch_get_dense_sequences(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[object] = []
    # A refused batch is sent row by row, which would hide that its numbers collided.
    monkeypatch.setattr(Lane, "_on_refusal", lambda self, rows, refusal: refusals.append(refusal))

    async def main() -> None:
        async with one_door(store_dsn) as door:
            one, two = await claim_many(door, 2)
            rows = [step(one, number) for number in range(1, 6)] + [step(two, 1)]
            rows[4].finish, rows[4].finish_result = b"Completed", b'"end"'
            sent = asyncio.ensure_future(door.send(*rows))
            await asyncio.wait([sent], timeout=10)
            assert refusals == []
            assert set(await sent) == {"committed"}
            assert [entry[:2] for entry in journal(store_dsn, one)] == [(n, n) for n in range(1, 6)]
            row = instance(store_dsn, one)
            assert (row["next_sequence"], row["state"], row["result"]) == (6, "Completed", "end")
            assert instance(store_dsn, two)["next_sequence"] == 2

    run(main())


def test_good_fenced_unknown_ended_and_repeated_rows_of_one_batch_each_get_their_own_answer(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            many = await claim_many(a, 5)
            good, stale, repeated, ended, paused = many
            await a.send(step(repeated))
            await a.send(step(ended, finish=b"Completed"))
            await b.control.pause(paused.instance_id)
            sql(
                store_dsn,
                "update ninelives.flow_instance set fence = 9 where instance_id = %s",
                UUID(bytes=stale.instance_id),
            )
            nobody = step(good)
            nobody.instance_id = uuid4().bytes
            rows = [
                step(good), step(stale), step(repeated), step(ended, 2), nobody,
                step(paused, finish=b"Completed"), step(good, 2), step(good, 3, token=77),
            ]  # fmt: skip
            assert await a.send(*rows) == [
                "committed", "fenced", "committed", "terminal", "unknown", "paused", "committed", "fenced",
            ]  # fmt: skip
            assert [entry[:2] for entry in journal(store_dsn, good)] == [(1, 1), (2, 2)]
            assert [len(journal(store_dsn, other)) for other in (stale, repeated, ended, paused)] == [0, 1, 1, 0]

    run(main())


@pytest.mark.parametrize("several", [False, True])
def test_a_row_that_the_server_refuses_does_not_fail_its_neighbours(store_dsn: str, several: bool) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            many = await claim_many(door, 6)
            rows = [step(claimed, number) for claimed in many for number in ((1, 2) if several else (1,))]
            bad = rows[3]
            bad.result = b'{"broken'
            verdicts = await door.send(*rows)
            assert [verdict for row, verdict in zip(rows, verdicts, strict=True) if row is bad] == ["refused"]
            assert verdicts.count("committed") == len(rows) - 1
            assert bad.error.startswith("22P02")
            assert value(store_dsn, "select count(*) from ninelives.flow_step") == len(rows) - 1
            assert await door.send(step(many[0], 9)) == ["committed"]

    run(main())


def test_a_step_key_that_exists_falls_back_and_the_rest_of_the_batch_goes_in(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            many = await claim_many(door, 8)
            assert await door.send(step(many[0], 1, result=b'"first"')) == ["committed"]
            # Another token's row: only a broken store could make it, and it must not be overwritten.
            sql(
                store_dsn,
                "insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, step_id,"
                " attempt, scope, capability_id, capability_version, outcome, result)"
                " values (%s, 5, 0, 0, now(), 1, 1, '', 'x', '1', 'Success', '\"old\"')",
                UUID(bytes=many[1].instance_id),
            )
            verdicts = await door.send(*(step(claimed, 1, result=b'"second"') for claimed in many))
            assert verdicts == ["committed", "duplicate", *["committed"] * 6]
            assert [entry[3] for entry in journal(store_dsn, many[0])] == ["first"]
            assert [entry[3] for entry in journal(store_dsn, many[1])] == ["old"]
            assert instance(store_dsn, many[1])["next_sequence"] == 1
            assert value(store_dsn, "select count(*) from ninelives.flow_step") == 8

    run(main())


def test_a_paused_instance_takes_result_rows_tells_the_pause_and_does_not_end(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            fast, careful = await claim_many(door, 2)
            for claimed in (fast, careful):
                assert await door.control.pause(claimed.instance_id) == "Running"
            running, first, second = step(fast, 1), step(careful, 1), step(careful, 2)
            assert await door.send(running, first, second) == ["committed"] * 3
            assert [row.observed_pause for row in (running, first, second)] == [True] * 3
            ending = step(fast, 2, finish=b"Completed")
            assert await door.send(ending, finish(careful)) == ["paused", "paused"]
            for claimed in (fast, careful):
                row = instance(store_dsn, claimed)
                assert (row["state"], row["wake"], row["result"]) == ("Running", True, None)
            assert await door.control.resume(fast.instance_id) == "Running"
            assert await door.send(step(fast, 2, finish=b"Completed")) == ["committed"]
            assert running.observed_pause and instance(store_dsn, fast)["state"] == "Completed"

    run(main())


def test_a_commit_that_the_server_cancelled_is_sent_again(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            cancel = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
            with locked(store_dsn, claimed):
                commit = asyncio.ensure_future(door.send(step(claimed)))
                await until_blocked(store_dsn)
                sql(store_dsn, cancel + " and datname = current_database()")
                await until_blocked(store_dsn, 0)
                await until_blocked(store_dsn, 1)
                assert not commit.done()
            assert await commit == ["committed"]
            assert len(journal(store_dsn, claimed)) == 1

    run(main())


def test_commits_of_two_lanes_over_the_same_instances_in_opposite_order_never_deadlock(store_dsn: str) -> None:
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"

    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            before = value(store_dsn, deadlocks)
            many = await claim_many(a, 30)
            for number in range(1, 41):
                rows = [step(claimed, 2 * number) for claimed in many]
                back = [step(claimed, 2 * number + 1) for claimed in reversed(many)]
                if number % 2:
                    rows += [step(claimed, 1000 + number) for claimed in reversed(many)]
                told = await asyncio.gather(a.send(*rows), b.send(*back))
                assert set(told[0]) | set(told[1]) == {"committed"}
            ends = await asyncio.gather(
                a.send(*(step(claimed, 5000, finish=b"Completed") for claimed in many)),
                b.send(*(finish(claimed, b"Completed") for claimed in reversed(many))),
            )
            # One of the two ended each; the other is told so.
            assert set(ends[0]) | set(ends[1]) <= {"committed", "terminal", "finished"}
        assert value(store_dsn, deadlocks) == before
        gaps = (
            "select count(*) from (select instance_id from ninelives.flow_step group by instance_id"
            " having max(sequence) <> count(*) or min(sequence) <> 1) x"
        )
        assert value(store_dsn, gaps) == 0

    run(main())
