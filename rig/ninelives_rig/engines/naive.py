"""The negative control: a queue table with a status per flow and no journal. Deliberately wrong.

A worker takes a row for a short while, runs all steps in memory and marks the row done at the end. After a
crash the whole flow runs again from its first step. A rig that does not find fault with this finds fault
with nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import UUID

import psycopg
from psycopg import sql

from ninelives_rig.engines.base import (
    WORKLOAD_ENTERED,
    WORKLOAD_RETURNED,
    Capabilities,
    NodeOrder,
    Operator,
    Position,
    Running,
    Starter,
    Store,
    Workload,
)
from ninelives_rig.refusal import Refused
from ninelives_rig.tools import NodeTools, StepRefused, Visit

_VISIBLE_AFTER_S = 2.0
_POLL_S = 0.1


class _Queue:
    """The statements, each against the table of one schema."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[object, ...]], schema: str) -> None:
        self._connection = connection
        self._table = sql.Identifier(schema, "naive_flow")

    async def insert(self, instance_id: UUID) -> None:
        await self._run("insert into {} (instance_id) values (%s) on conflict do nothing", instance_id)

    async def take(self, limit: int) -> list[tuple[UUID, int]]:
        return await self._claim(
            "instance_id in (select instance_id from {} where state = 'queued' or"
            " (state = 'running' and visible_at < clock_timestamp())"
            " order by instance_id limit %s for update skip locked)",
            limit,
        )

    async def take_one(self, instance_id: UUID) -> list[tuple[UUID, int]]:
        return await self._claim("instance_id = %s and state = 'queued'", instance_id)

    async def finish(self, instance_id: UUID) -> None:
        await self._run("update {} set state = 'done' where instance_id = %s", instance_id)

    async def is_done(self, instance_id: UUID) -> bool:
        return bool(await self._run("select 1 from {} where instance_id = %s and state = 'done'", instance_id))

    async def _claim(self, condition: str, value: object) -> list[tuple[UUID, int]]:
        rows = await self._run(
            "update {} set state = 'running', claims = claims + 1,"
            f" visible_at = clock_timestamp() + interval '{_VISIBLE_AFTER_S} s' where {condition}"
            " returning instance_id, claims",
            value,
        )
        return [(UUID(str(instance_id)), int(str(claims))) for instance_id, claims in rows]

    async def _run(self, statement: str, value: object) -> list[tuple[object, ...]]:
        tables = [self._table] * statement.count("{}")
        cursor = await self._connection.execute(sql.SQL(statement).format(*tables), [value])
        return await cursor.fetchall() if cursor.description else []


class _Ended:
    """An instance that this process does not run, or may not: its end is read from the table."""

    def __init__(self, queue: _Queue, instance_id: UUID) -> None:
        self._queue = queue
        self._instance_id = instance_id

    async def finished(self) -> None:
        while not await self._queue.is_done(self._instance_id):
            await asyncio.sleep(_POLL_S)


class _Client:
    """Puts instances into the queue and runs none."""

    def __init__(self, queue: _Queue) -> None:
        self._queue = queue

    async def start(self, index: int, instance_id: UUID) -> Running:
        await self._queue.insert(instance_id)
        return _Ended(self._queue, instance_id)


class _Node:
    """Takes rows and runs their steps in memory."""

    def __init__(self, queue: _Queue, order: NodeOrder, tools: NodeTools) -> None:
        self._queue = queue
        self._order = order
        self._tools = tools
        self._running: set[asyncio.Task[None]] = set()

    async def start(self, index: int, instance_id: UUID) -> Running:
        await self._queue.insert(instance_id)
        for claimed in await self._queue.take_one(instance_id):
            self._begin(*claimed)
        return _Ended(self._queue, instance_id)

    async def serve(self) -> None:
        """Claim and run until told to stop, then let what runs come to its end."""
        stopping = self._tools.stopping
        starts = asyncio.create_task(self._tools.serve_starts(self, ENGINE.is_refusal))
        while not stopping.is_set():
            room = self._order.settings.flows_max - len(self._running)
            for claimed in await self._queue.take(room) if room > 0 else []:
                self._begin(*claimed)
            await asyncio.wait([asyncio.create_task(stopping.wait())], timeout=_POLL_S)
        await starts
        if self._running:
            await asyncio.wait(self._running, timeout=self._order.settings.drain_s)

    def _begin(self, instance_id: UUID, claims: int) -> None:
        self._tools.recorder.event("claimed", instance_id=str(instance_id), token=0, takeover=claims > 1)
        task = asyncio.create_task(self._run(instance_id, claims))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, instance_id: UUID, claims: int) -> None:
        for step_id, step in enumerate(self._order.workload.steps, start=1):
            attempt = 0
            while True:
                attempt += 1
                visit = Visit(instance_id, "", step_id, attempt, 0, f"{instance_id}//{step_id}")
                try:
                    self._tools.entered(step, visit)
                except StepRefused:
                    await asyncio.sleep(step.retry_delay_s)
                    continue
                self._tools.affect(visit)
                await asyncio.sleep(step.service_s)
                self._tools.returning(visit)
                break
        await self._queue.finish(instance_id)
        self._tools.recorder.event("finished", instance_id=str(instance_id), token=0, state="Completed")


@asynccontextmanager
async def _connected(store: Store) -> AsyncIterator[_Queue]:
    async with await psycopg.AsyncConnection.connect(store.dsn, autocommit=True) as connection:
        yield _Queue(connection, store.schema)


class NaiveEngine:
    """The engine of this module; see the module's text."""

    name = "naive"
    preload = ("ninelives_rig.engines.naive",)
    capabilities = Capabilities(
        journal=False,
        tokens=False,
        intents=False,
        effects=frozenset({"idempotent"}),
        boundaries=frozenset({WORKLOAD_ENTERED, WORKLOAD_RETURNED}),
        positions={
            "before-commit": Position(WORKLOAD_RETURNED),
            "after-commit": Position(WORKLOAD_ENTERED, step_offset=1),
        },
    )

    def prepare(self, store: Store) -> None:
        """Create the queue."""
        with psycopg.connect(store.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(store.schema)))
            connection.execute(
                sql.SQL(
                    "create table {} (instance_id uuid primary key, state text not null default 'queued',"
                    " claims int not null default 0, visible_at timestamptz)"
                ).format(sql.Identifier(store.schema, "naive_flow"))
            )

    def discard(self, store: Store) -> None:
        """Drop the schema."""
        with psycopg.connect(store.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(store.schema)))

    @asynccontextmanager
    async def _client(self, store: Store) -> AsyncIterator[Starter]:
        async with _connected(store) as queue:
            yield _Client(queue)

    def client(self, store: Store, workload: Workload, version: str) -> AbstractAsyncContextManager[Starter]:
        """Open a client that puts instances into the queue."""
        return self._client(store)

    def operator(self, store: Store) -> AbstractAsyncContextManager[Operator]:
        """A queue has no signals."""
        raise Refused("the naive engine has no signals and no pauses")

    def bury(self, store: Store, process: str) -> bool:
        """A queue has no sessions."""
        raise Refused("the naive engine knows no sessions that could be declared dead")

    async def run_node(self, order: NodeOrder, tools: NodeTools) -> None:
        """Work on the queue until told to stop."""
        async with _connected(order.store) as queue:
            tools.recorder.event("node.opened", session_id=None)
            await _Node(queue, order, tools).serve()

    def progress_query(self, store: Store) -> sql.Composed:
        """Count rows, done rows, nothing for steps, and rows taken more than once."""
        return sql.SQL(
            "select count(*), count(*) filter (where state = 'done'), 0, count(*) filter (where claims > 1) from {}"
        ).format(sql.Identifier(store.schema, "naive_flow"))

    def tables(self, store: Store) -> Mapping[str, sql.Composed]:
        """One table: which instance is where. The engine's own words for done and running are translated."""
        return {
            "instance": sql.SQL(
                "select instance_id, case state when 'done' then 'Completed' when 'running' then 'Running'"
                " else 'Pending' end as state from {} order by instance_id"
            ).format(sql.Identifier(store.schema, "naive_flow"))
        }

    def is_refusal(self, error: Exception) -> bool:
        """Only an error that the server itself reported says that nothing was inserted."""
        return isinstance(error, psycopg.Error) and error.sqlstate is not None


ENGINE = NaiveEngine()
