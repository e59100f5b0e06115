"""Intents: one permission for each announced effect, and an outcome that is written once."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.store.doors import (
    declare_dead,
    finish,
    instance,
    intend,
    one_door,
    park,
    run,
    sql,
    step,
    two_doors,
)

pytestmark = pytest.mark.postgres


def intents(dsn: str) -> list[tuple[object, ...]]:
    return sql(dsn, "select attempt, token, doubted_token, outcome from ninelives.flow_intent order by attempt")


def test_an_intent_is_accepted_once_and_a_resend_tells_that_it_is_its_own(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            assert await door.send(intend(claimed)) == ["accepted"]
            assert await door.send(intend(claimed)) == ["exists under this token"]
            assert intents(store_dsn) == [(1, 1, None, None)]

    run(main())


def test_a_foreign_intent_is_no_permission_and_a_stale_holder_writes_none(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            assert await a.send(intend(first)) == ["accepted"]
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            assert [(read.attempt, read.token, read.outcome) for read in second.intents] == [(1, 1, None)]
            assert await b.send(intend(second)) == ["exists"]
            assert await a.send(intend(first, attempt=2)) == ["fenced"]
            assert intents(store_dsn) == [(1, 1, None, None)]

    run(main())


def test_a_paused_or_ended_instance_takes_no_intent(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            await door.control.pause(claimed.instance_id)
            assert await door.send(intend(claimed)) == ["paused"]
            await door.control.resume(claimed.instance_id)
            assert await door.send(intend(claimed), intend(claimed, 2)) == ["accepted", "accepted"]
            assert await door.send(finish(claimed)) == ["finished"]
            assert await door.send(intend(claimed, 3)) == ["terminal"]
            assert len(intents(store_dsn)) == 2

    run(main())


def test_the_outcome_comes_with_the_step_row_and_only_with_it(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            await a.send(intend(first))
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            late = step(first)
            late.settles = b"committed"
            assert await a.send(late) == ["fenced"]
            assert intents(store_dsn) == [(1, 1, None, None)]
            done = step(second)
            done.settles = b"done"
            assert await b.send(done) == ["committed"]
            assert intents(store_dsn) == [(1, 1, None, "done")]

    run(main())


def test_doubt_and_void_need_the_present_token_and_never_change_an_outcome(store_dsn: str) -> None:
    async def main() -> None:
        async with two_doors(store_dsn) as (a, b):
            first = await a.started_and_claimed()
            await a.send(intend(first))
            declare_dead(store_dsn, 1)
            (second,) = await b.claim()
            key = second.instance_id
            assert not await a.control.doubt(key, first.token, "", 1, 1)
            assert not await a.control.void(key, first.token, "", 1, 1)
            assert await b.control.doubt(key, second.token, "", 1, 1)
            assert intents(store_dsn) == [(1, 1, 2, None)]
            # A void whose answer was lost is sent again.
            assert await b.control.void(key, second.token, "", 1, 1)
            assert await b.control.void(key, second.token, "", 1, 1)
            assert not await b.control.doubt(key, second.token, "", 1, 1)
            assert intents(store_dsn) == [(1, 1, 2, "voided")]
            assert await b.send(intend(second, attempt=2)) == ["accepted"]
            row = step(second, attempt=2)
            row.settles = b"committed"
            assert await b.send(row) == ["committed"]
            assert not await b.control.void(key, second.token, "", 1, 2)
            assert [entry[3] for entry in intents(store_dsn)] == ["voided", "committed"]

    run(main())


def test_an_operator_settles_only_what_nobody_holds(store_dsn: str) -> None:
    async def main() -> None:
        async with one_door(store_dsn) as door:
            claimed = await door.started_and_claimed()
            await door.send(intend(claimed))
            key = claimed.instance_id
            assert not await door.control.settle(key, "", 1)
            assert intents(store_dsn) == [(1, 1, None, None)]
            # The bump of the refused settle must not let the park sleep over anything.
            assert await door.send(park(claimed)) == ["again"]
            assert await door.send(park(claimed, seq=2)) == ["parked"]
            assert await door.claim() == []
            assert await door.control.settle(key, "", 1)
            assert not await door.control.settle(key, "", 1)
            (again,) = await door.claim()
            assert [read.outcome for read in again.intents] == ["voided"]
            assert instance(store_dsn, UUID(bytes=key))["token"] == 2

    run(main())
