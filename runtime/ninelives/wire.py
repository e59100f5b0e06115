"""One PostgreSQL connection in libpq's pipeline mode, driven by the event loop.

An *exchange* is a list of prepared statements followed by a Sync: one message, one transaction. Several exchanges
may be in flight; they are executed in the order in which they were sent. An error rolls back its own exchange and
leaves its neighbours alone. A lost connection answers every exchange in flight with ``Lost``: nobody knows whether
they were executed, and the caller decides what it sends again.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from ninelives.errors import StoreUnavailable

Parameter = bytes | None
Statement = tuple[bytes, Sequence[Parameter]]

_TUPLES = int(pq.ExecStatus.TUPLES_OK)
_COMMAND = int(pq.ExecStatus.COMMAND_OK)
_SYNC = int(pq.ExecStatus.PIPELINE_SYNC)
_ABORTED = int(pq.ExecStatus.PIPELINE_ABORTED)
_FORMATS: Final = [[1] * n for n in range(40)]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server refused an exchange; nothing of it was kept."""

    sqlstate: str
    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection went away before the answer: the exchange may or may not have been executed."""

    message: str


Answer = list[PGresult] | Refusal | Lost
OnAnswer = Callable[[Answer], None]


class _Exchange:
    __slots__ = ("on_answer", "refusal", "results")

    def __init__(self, on_answer: OnAnswer) -> None:
        self.on_answer = on_answer
        self.results: list[PGresult] = []
        self.refusal: Refusal | None = None


class Wire:
    """A pipelined connection with prepared statements.

    ``on_lost`` is called once, behind the last ``Lost`` answer; ``on_notify`` with a channel that was notified.
    """

    def __init__(self, connection: psycopg.AsyncConnection[object]) -> None:
        self._connection = connection
        self._pg: PGconn = connection.pgconn
        self._fd = self._pg.socket
        self._loop = asyncio.get_running_loop()
        # Asked for no event, it still tells of errors and of a peer that is gone.
        self._broken = select.poll()
        self._broken.register(self._fd, 0)
        self._in_flight: deque[_Exchange] = deque()
        self._writing = False
        self.lost = False
        self.backend_pid: int = self._pg.backend_pid
        self.on_lost: Callable[[], None] | None = None
        self.on_notify: Callable[[str], None] | None = None

    @classmethod
    async def open(
        cls,
        dsn: str,
        statements: Mapping[str, str],
        *,
        application_name: str,
        listen: Sequence[str] = (),
        connect_timeout_s: int = 10,
    ) -> Wire:
        """Connect, prepare ``statements`` and enter pipeline mode.

        Raises ``StoreUnavailable`` when the server does not take the connection.
        """
        try:
            connection = await psycopg.AsyncConnection[object].connect(
                dsn, autocommit=True, application_name=application_name, connect_timeout=connect_timeout_s
            )
        except psycopg.OperationalError as error:
            raise StoreUnavailable(str(error).strip()) from error
        if connection.pgconn.server_version < SERVER_VERSION_MIN:
            connection.pgconn.finish()
            raise StoreUnavailable("the server is older than PostgreSQL 15; ninelives needs 15 or newer")
        try:
            for setting in SESSION_SETTINGS:
                await connection.execute(setting.encode())
            for channel in listen:
                await connection.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))
        except psycopg.Error as error:
            connection.pgconn.finish()
            raise StoreUnavailable(str(error).strip()) from error
        except BaseException:
            connection.pgconn.finish()
            raise
        wire = cls(connection)
        try:
            wire._enter_pipeline()
            await wire._prepare(statements)
        except psycopg.Error as error:
            wire.close()
            raise StoreUnavailable(str(error).strip()) from error
        except BaseException:
            wire.close()
            raise
        return wire

    def _enter_pipeline(self) -> None:
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._loop.add_reader(self._fd, self._on_readable)

    async def _prepare(self, statements: Mapping[str, str]) -> None:
        done: asyncio.Future[Answer] = self._loop.create_future()

        def settle(answer: Answer) -> None:
            if not done.done():
                done.set_result(answer)

        self._in_flight.append(_Exchange(settle))
        for name, text in statements.items():
            self._pg.send_prepare(name.encode(), text.encode())
        self._pg.pipeline_sync()
        self._flush()
        answer = await done
        if isinstance(answer, Refusal):
            raise StoreUnavailable(
                f"the server refused a prepared statement ({answer.sqlstate}): {answer.message}; "
                "run `ninelives migrate` if the schema is older than this release"
            )
        if isinstance(answer, Lost):
            raise StoreUnavailable(answer.message)

    @property
    def in_flight(self) -> int:
        """Exchanges sent and not answered."""
        return len(self._in_flight)

    def send(self, statements: Sequence[Statement], on_answer: OnAnswer) -> None:
        """Queue one exchange; ``on_answer`` gets one result for each statement, a ``Refusal`` or ``Lost``."""
        if self.lost:
            self._loop.call_soon(on_answer, Lost("the connection is closed"))
            return
        self._in_flight.append(_Exchange(on_answer))
        try:
            for name, parameters in statements:
                self._pg.send_query_prepared(name, parameters, _FORMATS[len(parameters)], 1)
            self._pg.pipeline_sync()
            self._flush()
        except psycopg.OperationalError as error:
            self._lose(str(error))

    async def ask(self, statements: Sequence[Statement]) -> Answer:
        """Send one exchange and wait for its answer."""
        done: asyncio.Future[Answer] = self._loop.create_future()

        def settle(answer: Answer) -> None:
            if not done.done():
                done.set_result(answer)

        self.send(statements, settle)
        return await done

    def close(self) -> None:
        """Close the connection; exchanges in flight are answered ``Lost``."""
        self._lose("closed by this process")

    def _flush(self) -> None:
        if self._pg.flush() and not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        try:
            pending = self._pg.flush()
        except psycopg.OperationalError as error:
            self._lose(str(error))
            return
        if not pending:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _on_readable(self) -> None:
        try:
            self._pg.consume_input()
            self._read()
            # To the end: uvloop tells of a descriptor in error once, and what is not read then is never told of again.
            while not self.lost and self._broken.poll(0):
                self._pg.consume_input()
                self._read()
        except psycopg.OperationalError as error:
            self._lose(str(error))
            return
        channels = set()
        while (notification := self._pg.notifies()) is not None:
            channels.add(notification.relname.decode())
        if self.on_notify is not None:
            for channel in channels:
                self.on_notify(channel)

    def _read(self) -> None:
        pg, in_flight = self._pg, self._in_flight
        while in_flight and not self.lost and not pg.is_busy():
            result = pg.get_result()
            if result is None:
                continue
            status = result.status
            exchange = in_flight[0]
            if status in (_TUPLES, _COMMAND):
                exchange.results.append(result)
            elif status == _SYNC:
                in_flight.popleft()
                exchange.on_answer(exchange.refusal or exchange.results)
            elif status != _ABORTED and exchange.refusal is None:
                sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
                message = result.error_message.decode(errors="replace").strip()
                if sqlstate is None or pg.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError(message)
                exchange.refusal = Refusal(sqlstate.decode(), message)
        if pg.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError("the connection to the server was lost")

    def _lose(self, reason: str) -> None:
        if self.lost:
            return
        self.lost = True
        # In front of the closing: a loop that still watches a closed descriptor aborts the whole process (libuv does).
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._loop.remove_writer(self._fd)
        self._pg.finish()
        unanswered = list(self._in_flight)
        self._in_flight.clear()
        for exchange in unanswered:
            exchange.on_answer(Lost(reason))
        if self.on_lost is not None:
            self.on_lost()


SERVER_VERSION_MIN: Final = 150000
SESSION_SETTINGS_DURABLE: Final = (
    "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"
)
"""An acknowledged commit is on disk, whatever the role's or database's default says; stronger settings stay."""

SESSION_SETTINGS: Final = (
    "set plan_cache_mode = force_generic_plan",
    "set enable_seqscan = off",
    SESSION_SETTINGS_DURABLE,
    "set idle_in_transaction_session_timeout = '10s'",
    "set statement_timeout = '30s'",
    "set lock_timeout = '10s'",
    "select set_config('transaction_timeout', '60s', false)"
    " where current_setting('server_version_num')::int >= 170000",
    "set jit = off",
)
"""Planner: the plans must use the indexes for any batch size. Time-outs end what a broken peer leaves (PROTOCOL R5)."""
