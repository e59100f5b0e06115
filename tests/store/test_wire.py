"""The wire: exchanges in order, errors that stay in theirs, and a loss that is told for everything in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest
import uvloop
from tests.store.doors import open_transaction, run, sql, until_blocked

from ninelives.errors import StoreUnavailable
from ninelives.packing import int4, read_int
from ninelives.wire import Answer, Lost, Refusal, Wire

pytestmark = pytest.mark.postgres

STATEMENTS = {
    "echo": "select $1::int",
    "divide": "select 1 / $1::int",
    "lock": "select from ninelives.node_session for update",
    "big": "select repeat('x', $1::int)",
    "note": "select pg_notify('here', '')",
    "write": "insert into ninelives.node_session values ($1, 'w', now(), now(), now(), null)",
}


@asynccontextmanager
async def wire(dsn: str) -> AsyncIterator[Wire]:
    made = await Wire.open(dsn, STATEMENTS, application_name="wire", listen=("here",))
    try:
        yield made
    finally:
        made.close()


def echo(number: int) -> tuple[bytes, tuple[bytes]]:
    return b"echo", (int4(number),)


def number_of(answer: Answer) -> int:
    assert isinstance(answer, list)
    return read_int(answer[-1].get_value(0, 0) or b"")


def test_many_exchanges_in_flight_are_answered_in_order(store_dsn: str) -> None:
    async def main() -> None:
        async with wire(store_dsn) as made:
            told: list[int] = []
            for number in range(500):
                made.send([echo(-1), echo(number)], lambda answer: told.append(number_of(answer)))
            assert number_of(await made.ask([echo(500)])) == 500
            assert told == list(range(500))
            assert made.in_flight == 0

    run(main())


def test_an_error_rolls_its_own_exchange_back_and_no_other(store_dsn: str) -> None:
    async def main() -> None:
        async with wire(store_dsn) as made:
            before = asyncio.ensure_future(made.ask([echo(1)]))
            key = (7).to_bytes(8, "big")
            bad = asyncio.ensure_future(made.ask([(b"write", (key,)), (b"divide", (int4(0),)), echo(2)]))
            after = asyncio.ensure_future(made.ask([echo(3)]))
            assert number_of(await before) == 1
            refusal = await bad
            assert isinstance(refusal, Refusal) and refusal.sqlstate == "22012"
            assert number_of(await after) == 3
            assert sql(store_dsn, "select count(*) from ninelives.node_session") == [(0,)]

    run(main())


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_lost_connection_answers_everything_in_flight_and_then_tells_it_once(
    store_dsn: str, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """What the backend has not read when it dies resets the connection, which uvloop tells of only once."""

    async def main() -> None:
        sql(store_dsn, "insert into ninelives.node_session values (1, 'x', now(), now(), now(), null)")
        async with wire(store_dsn) as made:
            told: list[str] = []
            made.on_lost = lambda: told.append("lost")
            with open_transaction(store_dsn, "select from ninelives.node_session for update"):
                for number in range(3):
                    made.send([(b"lock", ()), echo(number)], lambda answer: told.append(type(answer).__name__))
                await until_blocked(store_dsn)
                made.send([echo(3)], lambda answer: told.append(type(answer).__name__))
                sql(store_dsn, "select pg_terminate_backend(%s)", made.backend_pid)
                async with asyncio.timeout(10):
                    while len(told) < 5:
                        await asyncio.sleep(0.005)
            assert told == ["Lost", "Lost", "Lost", "Lost", "lost"]
            assert made.lost
            assert isinstance(await made.ask([echo(1)]), Lost)

    run(main(), loop_factory)


def test_an_idle_connection_that_is_ended_is_noticed(store_dsn: str) -> None:
    async def main() -> None:
        async with wire(store_dsn) as made:
            lost = asyncio.Event()
            made.on_lost = lost.set
            sql(store_dsn, "select pg_terminate_backend(%s)", made.backend_pid)
            await asyncio.wait_for(lost.wait(), 10)

    run(main())


def test_large_answers_and_large_questions_come_through(store_dsn: str) -> None:
    async def main() -> None:
        async with wire(store_dsn) as made:
            answers = await asyncio.gather(*(made.ask([(b"big", (int4(3_000_000),))]) for _ in range(5)))
            for answer in answers:
                assert isinstance(answer, list)
                assert len(answer[0].get_value(0, 0) or b"") == 3_000_000

    run(main())


def test_a_notification_is_told_while_the_connection_is_idle(store_dsn: str) -> None:
    async def main() -> None:
        async with wire(store_dsn) as made:
            noticed = asyncio.Event()
            made.on_notify = lambda channel: noticed.set() if channel == "here" else None
            for _ in range(3):
                sql(store_dsn, "select pg_notify('here', '')")
                await asyncio.wait_for(noticed.wait(), 10)
                noticed.clear()

    run(main())


def test_a_statement_that_does_not_fit_the_schema_is_refused_when_it_opens(store_dsn: str) -> None:
    async def main() -> None:
        with pytest.raises(StoreUnavailable, match="ninelives migrate"):
            await Wire.open(store_dsn, {"odd": "select missing from ninelives.flow_step"}, application_name="odd")

    run(main())


@pytest.mark.parametrize("failure", [psycopg.OperationalError("cut off"), asyncio.CancelledError()])
def test_an_opening_that_fails_late_leaves_nothing_in_the_loop(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """A closed descriptor that uvloop still watches aborts the process at the next look."""
    made: list[Wire] = []
    enter = Wire._enter_pipeline

    def fail(self: Wire) -> None:
        raise failure

    def note(self: Wire) -> None:
        made.append(self)
        enter(self)

    monkeypatch.setattr(Wire, "_enter_pipeline", note)
    monkeypatch.setattr(Wire, "_flush", fail)

    async def main() -> None:
        with pytest.raises(StoreUnavailable if isinstance(failure, psycopg.Error) else asyncio.CancelledError):
            await Wire.open(store_dsn, STATEMENTS, application_name="wire")
        assert asyncio.get_running_loop().remove_reader(made[0]._fd) is False

    run(main())
