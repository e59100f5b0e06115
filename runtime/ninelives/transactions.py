"""Transactional steps: the effect is SQL, and its transaction also carries the fence check and the step row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

import psycopg

from ninelives.errors import StoreUnavailable
from ninelives.store.rows import StepCommit, Verdict

log = logging.getLogger("ninelives.transactions")

Connection = psycopg.AsyncConnection[tuple[object, ...]]
GONE_ROUNDS_MAX = 500
NOT_COMMITTED = "NL001"


class Transactions:
    """A small pool of connections whose bodies' statements run in an open transaction.

    It is the only transaction that stays open across a step body; the server rolls it back when its node is fenced
    out, dies, or is declared dead (PROTOCOL R5).
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], queries: Mapping[str, str], size_max: int) -> None:
        self._connect = connect
        self._queries = {name: text.encode() for name, text in queries.items()}
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(size_max)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        """Lend a connection with a transaction begun; a broken one is not lent again."""
        async with self._room:
            connection = await self._usable()
            try:
                yield connection
            finally:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    await self._roll_back(connection)
                if not connection.closed:
                    self._idle.append(connection)

    async def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            await connection.close()
        self._idle.clear()

    async def commit(self, connection: Connection, row: StepCommit) -> str:
        """Commit the body's statements with the step row, in one pipeline; returns a verdict.

        Whatever is refused is rolled back whole; REFUSED means that the server would not commit the body's own
        statements. A lost answer is looked into only when the backend is gone.
        """
        if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS:
            row.error = "the body ended its own transaction or connection; leave both to the step"
            return Verdict.REFUSED
        backend_pid = connection.info.backend_pid
        wakes = [row.instance_id] if row.finish is not None else []
        try:
            async with connection.pipeline():
                if wakes:
                    await connection.execute(self._queries["commit_wakes"], [_uuids(wakes)])
                await connection.execute(self._queries["commit_lock"], [_uuids([row.instance_id])])
                written = await connection.execute(self._queries["commit_transactional"], _values(row))
                await connection.execute(b"commit")
            answer = await written.fetchone()
            row.observed_pause = bool(answer and answer[0])
            return Verdict.COMMITTED
        except psycopg.OperationalError as error:
            if not connection.broken and not connection.closed:
                await self._roll_back(connection)
                return await self._verdict(row, str(error))
            return await self._after_loss(row, backend_pid)
        except psycopg.Error as error:
            await self._roll_back(connection)
            if error.sqlstate == NOT_COMMITTED:
                return await self._verdict(row, str(error))
            row.error = str(error).strip()
            return Verdict.REFUSED

    async def _usable(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.execute(b"select 1")
                return connection
            except psycopg.Error:
                await connection.close()
        fresh = await self._connect()
        await fresh.execute(b"select 1")
        return fresh

    async def _roll_back(self, connection: Connection) -> None:
        try:
            await connection.rollback()
        except psycopg.Error:
            await connection.close()

    async def _after_loss(self, row: StepCommit, backend_pid: int) -> str:
        """End the backend that may still execute the commit, then read whether it did."""
        for _ in range(GONE_ROUNDS_MAX):
            try:
                fresh = await self._connect()
                async with fresh:
                    ended = await fresh.execute(self._queries["transaction_end"], [backend_pid])
                    if not await ended.fetchall():
                        return await self._verdict(row, "the connection was lost at the commit")
            except (psycopg.Error, StoreUnavailable) as error:
                log.info("transactional step: the store is not back yet: %s", error)
            await asyncio.sleep(0.02)
        return Verdict.UNKNOWN

    async def _verdict(self, row: StepCommit, why: str) -> str:
        fresh = await self._connect()
        async with fresh:
            key = [_uuid(row.instance_id), row.scope.decode(), row.step_id, row.attempt]
            found = await (await fresh.execute(self._queries["step_token"], key)).fetchone()
            if found is not None:
                return Verdict.COMMITTED if found[0] == row.token else Verdict.DUPLICATE
            asked = [_uuids([row.instance_id]), [row.token], [key[1]], [row.step_id], [row.attempt]]
            verdict = await fresh.execute(
                self._queries["commit_classify"], [*asked, [row.finish is not None]]
            )
            line = await verdict.fetchone()
            row.error = why
            return str(line[1]) if line is not None else Verdict.UNKNOWN


def _uuid(value: bytes) -> str:
    return str(UUID(bytes=value))


def _uuids(values: list[bytes]) -> list[str]:
    return [_uuid(value) for value in values]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _values(row: StepCommit) -> list[object]:
    return [
        _uuid(row.instance_id), row.token, row.scope.decode(), row.step_id, row.attempt,
        row.capability_id.decode(), row.capability_version.decode(), _text(row.result), _text(row.nondeterministic),
        row.duration_ms, _text(row.frontier), _text(row.finish), _text(row.finish_result),
    ]  # fmt: skip
