"""Doors to the store: what a node sends, without a node. Two of them play two nodes.

Also the waits that ask the server itself whether a backend waits for a lock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString, TypeVar
from uuid import UUID, uuid4

import psycopg

from ninelives import queries
from ninelives.client import BATCHED, SINGLE
from ninelives.store.claims import Limits
from ninelives.store.control import Control
from ninelives.store.lane import Lane
from ninelives.store.rows import Claimed, Finish, Intend, Park, Release, Row, Start, StepCommit
from ninelives.wire import Wire

T = TypeVar("T")
BOUND_S = 20.0
START_LOCK = 7
CHANNEL = "ninelives_test"
FLOW = "order"
_BLOCKED = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


def run(main: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run a test's coroutine, in a loop of another kind if asked to; one that hangs fails."""

    async def bounded() -> T:
        async with asyncio.timeout(60.0):
            return await main

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(bounded())


class Door:
    """One node's way into the store: a lane, a control connection and a session that never expires by itself."""

    def __init__(self, dsn: str, session_id: int) -> None:
        self.dsn = dsn
        self.session_id = session_id
        self.plan_id = 0
        self._queries = queries.load("ninelives")
        self.control = Control(self._wire_single, start_lock=START_LOCK, channel=CHANNEL)
        self.lane = Lane(
            self._wire_batched, session_id=lambda: self.session_id, start_lock=START_LOCK, channel=CHANNEL
        )

    async def open(self) -> None:
        open_session(self.dsn, self.session_id)
        await self.control.open()
        await self.lane.open()
        self.plan_id = await self.plan(FLOW, "1")

    async def close(self) -> None:
        await self.lane.close()
        self.control.close()

    async def plan(self, flow_id: str, version: str) -> int:
        return await self.control.register(flow_id, version, f"{flow_id} {version}", b"{}")

    async def _wire_single(self) -> Wire:
        return await self._wire(SINGLE)

    async def _wire_batched(self) -> Wire:
        return await self._wire(BATCHED)

    async def _wire(self, names: Sequence[str]) -> Wire:
        statements = {name: self._queries[name] for name in names}
        return await Wire.open(self.dsn, statements, application_name=f"door {self.session_id}")

    # -- what a node sends

    async def send(self, *rows: Row) -> list[str]:
        """Submit rows in one batch and return their verdicts."""
        for row in rows:
            self.lane.submit(row)
        return [str(verdict) for verdict in await asyncio.gather(*(row.answered for row in rows))]

    def start_row(
        self, instance_id: UUID, input: bytes = b"{}", *, hold: bool = False, deadline_ms: int = 0,
        plan_id: int | None = None,
    ) -> Start:  # fmt: skip
        plan = self.plan_id if plan_id is None else plan_id
        return Start(instance_id.bytes, future(), plan, FLOW.encode(), b"1", input, deadline_ms, hold)

    async def start(self, instance_id: UUID | None = None, *, hold: bool = False, deadline_ms: int = 0) -> UUID:
        made = instance_id or uuid4()
        (verdict,) = await self.send(self.start_row(made, hold=hold, deadline_ms=deadline_ms))
        assert verdict == ("held" if hold else "started")
        return made

    async def claim(self, limit: int = 10, recovery_limit: int = 10, plans: Sequence[int] = ()) -> list[Claimed]:
        limits = Limits(limit, recovery_limit, suspicious_claims=1_000_000, suspects=1)
        taken = await self.control.claim(self.session_id, list(plans) or [self.plan_id], limits)
        assert taken is not None
        return taken

    async def started_and_claimed(self, instance_id: UUID | None = None) -> Claimed:
        made = await self.start(instance_id)
        taken = {claimed.instance_id: claimed for claimed in await self.claim(1000, 1000)}
        return taken[made.bytes]


def future() -> asyncio.Future[str]:
    return asyncio.get_running_loop().create_future()


def step(
    claimed: Claimed, step_id: int = 1, *, attempt: int = 1, result: bytes = b"1", token: int | None = None,
    outcome: bytes = b"Success", finish: bytes | None = None,
) -> StepCommit:  # fmt: skip
    """A step row under the token of `claimed`."""
    row = StepCommit(
        claimed.instance_id, claimed.token if token is None else token, future(), b"", step_id, attempt,
        b"pay", b"1", outcome, result, None, 3,
    )  # fmt: skip
    row.finish = finish
    row.finish_result = result if finish else None
    return row


def park(claimed: Claimed, *, seq: int | None = None, delay_ms: int = -1, token: int | None = None) -> Park:
    own = claimed.token if token is None else token
    return Park(claimed.instance_id, own, future(), claimed.seq if seq is None else seq, delay_ms)


def release(claimed: Claimed) -> Release:
    return Release(claimed.instance_id, claimed.token, future())


def finish(claimed: Claimed, state: bytes = b"Failed", result: bytes = b"{}") -> Finish:
    return Finish(claimed.instance_id, claimed.token, future(), state, result)


def intend(claimed: Claimed, step_id: int = 1, attempt: int = 1) -> Intend:
    return Intend(claimed.instance_id, claimed.token, future(), b"", step_id, attempt, b"key")


@asynccontextmanager
async def two_doors(dsn: str) -> AsyncIterator[tuple[Door, Door]]:
    """Two nodes' doors, with sessions 1 and 2."""
    doors = Door(dsn, 1), Door(dsn, 2)
    try:
        for door in doors:
            await door.open()
        yield doors
    finally:
        for door in doors:
            await door.close()


@asynccontextmanager
async def one_door(dsn: str, session_id: int = 1) -> AsyncIterator[Door]:
    door = Door(dsn, session_id)
    try:
        await door.open()
        yield door
    finally:
        await door.close()


# -- the database, seen from outside


def sql(dsn: str, query: LiteralString | bytes, *parameters: object) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of its own and return its rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


def value(dsn: str, query: LiteralString | bytes, *parameters: object) -> Any:
    ((only,),) = sql(dsn, query, *parameters)
    return only


def instance(dsn: str, claimed: Claimed | UUID) -> dict[str, Any]:
    """An instance with its lease and wake, by column name; wake columns are None when it has no wake."""
    key = claimed if isinstance(claimed, UUID) else UUID(bytes=claimed.instance_id)
    text = value(
        dsn,
        "select to_json(x) from (select i.state, i.fence, i.next_sequence, i.paused, i.claims, i.result, i.input,"
        " l.token, l.holder as lease_holder, w.instance_id is not null as wake, w.seq, w.seen_seq, w.holder,"
        " w.run_at is not null as scheduled, extract(epoch from w.run_at - clock_timestamp()) as due_in_s"
        " from ninelives.flow_instance i left join ninelives.flow_lease l using (instance_id)"
        " left join ninelives.flow_wake w using (instance_id) where i.instance_id = %s) x",
        key,
    )
    return dict(text)


def journal(dsn: str, claimed: Claimed | UUID) -> list[tuple[int, int, int, Any, int]]:
    """The step rows of an instance: sequence, step, attempt, result, token."""
    key = claimed if isinstance(claimed, UUID) else UUID(bytes=claimed.instance_id)
    rows = sql(
        dsn,
        "select sequence, step_id, attempt, result, token from ninelives.flow_step"
        " where instance_id = %s order by sequence",
        key,
    )
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def open_session(dsn: str, session_id: int) -> None:
    sql(
        dsn,
        "insert into ninelives.node_session (session_id, node_name, server_start, opened_at, expires_at)"
        " values (%s, 'door', pg_postmaster_start_time(), clock_timestamp(), clock_timestamp() + interval '1 h')",
        session_id,
    )


def declare_dead(dsn: str, session_id: int) -> None:
    sql(dsn, "update ninelives.node_session set dead_at = clock_timestamp() where session_id = %s", session_id)


@contextmanager
def open_transaction(dsn: str, query: LiteralString | bytes, *parameters: object) -> Iterator[psycopg.Connection]:
    """Hold what `query` locks until the block commits or ends (which rolls back)."""
    with psycopg.connect(dsn) as connection:
        connection.execute(query, parameters)
        yield connection
        connection.rollback()


@contextmanager
def locked(dsn: str, claimed: Claimed | UUID) -> Iterator[psycopg.Connection]:
    """Hold the row lock of an instance."""
    key = claimed if isinstance(claimed, UUID) else UUID(bytes=claimed.instance_id)
    query = "select from ninelives.flow_instance where instance_id = %s for no key update"
    with open_transaction(dsn, query, key) as connection:
        yield connection


async def until_blocked(dsn: str, count: int = 1) -> None:
    """Return once the server says that `count` backends of this database wait for a lock."""
    end = time.monotonic() + BOUND_S
    with psycopg.connect(dsn, autocommit=True) as connection:
        while connection.execute(_BLOCKED).fetchone() != (count,):
            assert time.monotonic() < end, f"not {count} backends came to wait for a lock"
            await asyncio.sleep(0.005)


async def settled(task: Awaitable[T]) -> T:
    async with asyncio.timeout(BOUND_S):
        return await task
