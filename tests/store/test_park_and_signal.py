"""Resting and waking: nothing that came in between is slept over, nothing accepted is lost or consumed twice."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID, uuid4

import pytest
from tests.store.doors import (
    declare_dead,
    finish,
    instance,
    journal,
    one_door,
    open_transaction,
    park,
    run,
    sql,
    step,
    two_doors,
    until_blocked,
    value,
)

pytestmark = pytest.mark.postgres


def consumers(dsn: str) -> list[tuple[object, ...]]:
    return sql(dsn, "select signal_id, consumed_step_id from ninelives.flow_signal order by signal_seq")


def test_a_park_rests_and_is_not_claimed_until_it_is_woken(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            assert await door.send(park(claimed)) == ["parked"]
            row = instance(store_dsn, claimed)
            assert (row["state"], row["scheduled"]) == ("Suspended", False)
            assert (row["holder"], row["lease_holder"]) == (None, None)
            assert (row["seq"], row["seen_seq"], row["claims"]) == (1, 1, 0)
            assert await door.claim() == []
            assert await door.control.signal(claimed.instance_id, "s", "go", b"1") == "accepted"
            (again,) = await door.claim()
            assert (again.seq, again.token, [signal.signal_id for signal in again.signals]) == (2, 2, ["s"])

    run(main())


def test_a_signal_between_the_claim_and_the_park_keeps_the_instance_awake(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            assert await door.control.signal(claimed.instance_id, "s", "go", b"1") == "accepted"
            resting = park(claimed)
            assert await door.send(resting) == ["again"]
            assert resting.current_seq == 2
            assert instance(store_dsn, claimed)["holder"] == 1
            read = await door.control.read(claimed)
            assert [signal.name for signal in read.signals] == ["go"]
            assert await door.send(park(claimed, seq=2)) == ["parked"]

    run(main())


def test_a_park_that_waited_for_the_signal_s_transaction_sees_it(store_dsn: str) -> None:
    """The waker has bumped and not committed when the park arrives: the park must judge what it finds after."""

    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            wake = "update ninelives.flow_wake set seq = seq + 1 where instance_id = %s"
            with open_transaction(store_dsn, wake, UUID(bytes=claimed.instance_id)) as waker:
                resting = asyncio.ensure_future(door.send(park(claimed)))
                await until_blocked(store_dsn)
                waker.commit()
                assert await resting == ["again"]

    run(main())


def test_only_the_holder_under_its_token_parks(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            assert await b.send(park(first)) == ["not holder"]
            assert await a.send(park(first, token=0)) == ["not holder"]
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            assert await a.send(park(first)) == ["not holder"]
            assert instance(store_dsn, second)["holder"] == 2
            # A session that holds it again, under a newer token, must not be parked by its older activation.
            assert await b.send(park(second, token=first.token)) == ["not holder"]
            assert await b.send(finish(second), park(second)) == ["finished", "not holder"]

    run(main())


def test_a_park_is_a_repeat_safe_operation(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            assert await door.send(park(claimed, delay_ms=60_000)) == ["parked"]
            before = instance(store_dsn, claimed)
            assert await door.send(park(claimed, delay_ms=60_000)) == ["not holder"]
            after = instance(store_dsn, claimed)
            assert {**before, "due_in_s": 0} == {**after, "due_in_s": 0}

    run(main())


@pytest.mark.parametrize("signal_between", [False, True])
def test_a_paused_instance_parks_whatever_came_in_and_wakes_with_the_resume(
    store_dsn: str, signal_between: bool
) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            await door.control.pause(claimed.instance_id)
            if signal_between:
                assert await door.control.signal(claimed.instance_id, "s", "go", b"1") == "accepted"
            assert await door.send(park(claimed, delay_ms=0)) == ["parked"]
            row = instance(store_dsn, claimed)
            assert (row["holder"], row["scheduled"], row["state"]) == (None, False, "Running")
            assert await door.claim() == []
            assert await door.control.resume(claimed.instance_id) == "Running"
            (again,) = await door.claim()
            assert len(again.signals) == signal_between

    run(main())


def test_the_delay_counts_by_the_database_s_clock_and_the_deadline_bounds_it(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            made = await door.start(deadline_ms=90_000)
            (bounded,) = await door.claim()
            assert 80_000 < bounded.deadline_in_ms <= 90_000
            free = await door.started_and_claimed()
            assert free.deadline_in_ms == -1
            assert await door.send(park(bounded, delay_ms=3_600_000), park(free, delay_ms=3_600_000)) == ["parked"] * 2
            assert 80 < instance(store_dsn, made)["due_in_s"] <= 90
            assert 3_590 < instance(store_dsn, free)["due_in_s"] <= 3_600
            sql(store_dsn, "update ninelives.flow_wake set run_at = now()")
            taken = {claimed.instance_id: claimed for claimed in await door.claim()}
            assert await door.send(park(taken[made.bytes])) == ["parked"]
            assert 80 < instance(store_dsn, made)["due_in_s"] <= 90
            assert await door.send(park(taken[free.instance_id])) == ["parked"]
            assert instance(store_dsn, free)["scheduled"] is False

    run(main())


def test_a_park_in_an_old_transaction_is_not_due_too_early(store_dsn: str) -> None:
    """B16: the delay counts from when it is written, not from when its transaction began to wait."""

    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            lock = "select from ninelives.flow_wake where instance_id = %s for update"
            began = time.monotonic()
            with open_transaction(store_dsn, lock, UUID(bytes=claimed.instance_id)) as other:
                resting = asyncio.ensure_future(door.send(park(claimed, delay_ms=1_000)))
                await until_blocked(store_dsn)
                other.execute("select pg_sleep(0.4)")
                other.rollback()
                assert await resting == ["parked"]
            waited = time.monotonic() - began
            due_in_s = instance(store_dsn, claimed)["due_in_s"]
            assert due_in_s > 1.0 - (time.monotonic() - began - 0.4) and waited >= 0.4

    run(main())


def test_a_signal_before_the_start_waits_for_it(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            made = uuid4()
            assert await door.control.signal(made.bytes, "s", "go", b'"early"') == "buffered"
            assert await door.control.signal(made.bytes, "s", "go", b'"early"') == "duplicate"
            await door.start(made)
            (claimed,) = await door.claim()
            assert [(signal.signal_id, signal.payload) for signal in claimed.signals] == [("s", b'"early"')]

    run(main())


def test_a_signal_that_meets_the_start_in_flight_waits_for_it_and_wakes(store_dsn: str) -> None:
    """Start holds the shared lock until it has committed, so the early signal cannot slip in between unseen."""

    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            made = uuid4()
            block = "insert into ninelives.flow_wake (instance_id, plan_id, seq, seen_seq) values (%s, 1, 1, 0)"
            with open_transaction(store_dsn, block, made) as other:
                start = asyncio.ensure_future(a.send(a.start_row(made)))
                await until_blocked(store_dsn)
                signal = asyncio.ensure_future(b.control.signal(made.bytes, "s", "go", b"1"))
                await until_blocked(store_dsn, 2)
                other.rollback()
                assert await start == ["started"]
                assert await signal == "accepted"
            assert instance(store_dsn, made)["seq"] == 2

    run(main())


def test_a_signal_is_accepted_once_under_its_id_and_refused_after_the_end(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            key = claimed.instance_id
            told = [await door.control.signal(key, "s", "go", b"1") for _ in range(3)]
            assert told == ["accepted", "duplicate", "duplicate"]
            assert await door.control.signal(key, "t", "go", b"2") == "accepted"
            assert await door.send(finish(claimed)) == ["finished"]
            assert await door.control.signal(key, "s", "go", b"1") == "duplicate"
            assert await door.control.signal(key, "u", "go", b"3") == "finished"
            assert consumers(store_dsn) == [("s", None), ("t", None)]

    run(main())


def test_a_signal_is_consumed_once_with_its_step_row(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            await door.control.signal(claimed.instance_id, "s", "go", b"1")
            first, second = step(claimed, 1), step(claimed, 2)
            first.signal_id = second.signal_id = b"s"
            assert await door.send(first, second) == ["committed", "absorbed"]
            third = step(claimed, 3)
            third.signal_id = b"s"
            missing = step(claimed, 4)
            missing.signal_id = b"never sent"
            assert await door.send(third, missing) == ["absorbed", "absorbed"]
            assert [entry[:2] for entry in journal(store_dsn, claimed)] == [(1, 1)]
            assert consumers(store_dsn) == [("s", 1)]
            # The resend of the row that consumed it is a success.
            again = step(claimed, 1)
            again.signal_id = b"s"
            assert await door.send(again) == ["committed"]
            assert instance(store_dsn, claimed)["next_sequence"] == 2

    run(main())


def test_a_fenced_consumer_leaves_the_signal_to_the_next(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            await a.control.signal(first.instance_id, "s", "go", b"1")
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            late, right = step(first), step(second)
            late.signal_id = right.signal_id = b"s"
            assert await a.send(late) == ["fenced"]
            assert consumers(store_dsn) == [("s", None)]
            assert await b.send(right) == ["committed"]
            assert value(store_dsn, "select consumed_token from ninelives.flow_signal") == 2

    run(main())


def test_pause_and_resume_say_whether_there_was_anything_to_pause(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            assert await door.control.pause(uuid4().bytes) is None
            claimed = await door.started_and_claimed()
            assert await door.send(finish(claimed)) == ["finished"]
            assert await door.control.pause(claimed.instance_id) is None
            assert await door.control.resume(claimed.instance_id) is None
            assert instance(store_dsn, claimed)["paused"] is False

    run(main())
