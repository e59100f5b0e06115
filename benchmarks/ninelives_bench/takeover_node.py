"""Real nodes in processes of their own, to be killed and frozen; nothing of them is left behind."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Any, Final, Self

import psycopg
import uvloop

from ninelives import Call, Flow, Node, Settings, Transactional, capability
from ninelives_bench.populate import Connection

READY_S: Final = 60.0
WATCHED_S: Final = 5.0
SLEEP: Final = b"select pg_sleep(8)"
"""Shorter than the statement time-out of a session, longer than anybody here waits for a death."""


class _Waiting:
    """In a node that is to be killed, the second steps of its instances wait here for ever."""

    wanted = 0
    reached = 0
    all_there: asyncio.Event


@capability("bench.plain", version="1")
async def plain(call: Call, given: Any) -> Any:
    """Do nothing."""
    return given


@capability("bench.waits", version="1")
async def waits(call: Call, given: Any) -> Any:
    """Wait for ever in a node that is to be killed, and do nothing anywhere else."""
    if _Waiting.wanted:
        _Waiting.reached += 1
        if _Waiting.reached == _Waiting.wanted:
            _Waiting.all_there.set()
        await asyncio.Event().wait()
    return given


@capability("bench.sleeps", version="1", effect=Transactional)
async def sleeps(call: Call, given: Any) -> Any:
    """Let the server execute a long statement."""
    await call.connection.execute(SLEEP)
    return given


HELD: Final = Flow("bench.held", version="1").step("one", plain).step("two", waits).step("three", plain)
SLEEPY: Final = Flow("bench.sleepy", version="1").step("sleep", sleeps)


@dataclass(frozen=True, slots=True)
class Duty:
    """What a node does: hold so many instances, or have the server busy with a statement of the named kind."""

    hold: int = 0
    sleep: str = ""
    """"transaction": a step's own statement; "session": one on the connection that has the session's lock."""
    ttl_s: float = 30.0


class NodeProcess:
    """A node in a process of its own; use `with`. It dies with this process, and Ctrl-C is left to it."""

    def __init__(self, dsn: str, duty: Duty | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._end, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, dsn, duty or Duty()), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self.session_id = self._hear()
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> float:
        """SIGKILL it; return when, in seconds since 1970, as the server's clock on the same host counts them."""
        at = time.time()
        os.kill(self.pid, signal.SIGKILL)
        return at

    def freeze(self) -> float:
        """SIGSTOP it; return when."""
        at = time.time()
        os.kill(self.pid, signal.SIGSTOP)
        return at

    def end(self) -> None:
        """Kill it, frozen or not, and wait for its end."""
        self._process.kill()
        self._process.join()
        self._end.close()

    def _hear(self) -> int:
        if not self._end.poll(READY_S):
            raise RuntimeError(f"a node was not ready within {READY_S:.0f} s")
        try:
            said = self._end.recv()
        except EOFError:
            raise RuntimeError("a node died before it was ready") from None
        if not isinstance(said, int):
            raise RuntimeError(f"a node failed: {said}")
        return said


def await_watched(connection: Connection, session_id: int) -> bool:
    """Wait until somebody waits for the session's lock, as the neighbour of a node does nearly all the time."""
    end = time.monotonic() + WATCHED_S
    while time.monotonic() < end:
        found = connection.execute(
            "select exists (select from pg_locks where locktype = 'advisory' and not granted and objsubid = 1"
            " and (classid::bigint << 32) + objid::bigint = %s)",
            (session_id,),
        ).fetchone()
        if found is not None and found[0]:
            return True
        time.sleep(0.005)
    return False


def seen_dead_at(connection: Connection, session_id: int, timeout_s: float) -> float | None:
    """Wait until a session is declared dead; return when, in seconds since 1970, or `None`."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        found = connection.execute(
            "select extract(epoch from dead_at)::float8 from ninelives.node_session where session_id = %s",
            (session_id,),
        ).fetchone()
        if found is not None and found[0] is not None:
            return float(found[0])
        time.sleep(0.01)
    return None


def _serve(end: Pipe, dsn: str, duty: Duty) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Ties this process to the one that has started it.
    import ninelives_rig.lifeline  # noqa: F401

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_live(end, dsn, duty))
    except Exception as error:
        with suppress(OSError):
            end.send(f"{type(error).__name__}: {error}")


async def _live(end: Pipe, dsn: str, duty: Duty) -> None:
    settings = Settings(ttl_s=duty.ttl_s, in_flight_max=max(256, duty.hold))
    async with Node(dsn, flows=[HELD, SLEEPY], settings=settings, name="bench") as node:
        if duty.hold:
            await _hold(node, duty.hold)
        sleeping = await _sleep(node, duty.sleep) if duty.sleep else None
        end.send(node.session_id)
        await node.run()
        if sleeping is not None:
            sleeping.cancel()


async def _hold(node: Node, count: int) -> None:
    _Waiting.all_there = asyncio.Event()
    _Waiting.wanted = count
    await asyncio.gather(*(node.start(HELD, {"order": number}) for number in range(count)))
    await _Waiting.all_there.wait()


async def _sleep(node: Node, kind: str) -> asyncio.Task[Any]:
    """Begin a long statement and return when the server executes it."""
    if kind == "transaction":
        sleeping = asyncio.create_task(_start_sleepy(node))
    else:
        sleeping = asyncio.create_task(asyncio.to_thread(_sleep_in_session, node))
    name = f"ninelives {node.session_id}"
    async with await psycopg.AsyncConnection.connect(node.dsn, autocommit=True) as connection:
        while True:
            found = await connection.execute(
                "select from pg_stat_activity where application_name = %s and state = 'active'"
                " and query like 'select pg_sleep(%%' and wait_event = 'PgSleep'",
                (name,),
            )
            if await found.fetchone() is not None:
                return sleeping
            await asyncio.sleep(0.01)


async def _start_sleepy(node: Node) -> None:
    await node.start(SLEEPY, {})


def _sleep_in_session(node: Node) -> None:
    session = node._session
    assert session is not None and session._connection is not None
    with suppress(psycopg.Error):
        session._connection.execute(SLEEP)
