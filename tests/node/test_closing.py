"""Closing ends in bounded time, whatever the server does, and leaves no thread, task or connection."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.node.flows import GATED
from tests.node.helpers import make_node, run, sql, until

from ninelives import Node, Settings, StoreUnavailable, migrate, queries
from ninelives.session import Session, application_name
from ninelives.watch import Watch
from ninelives.wire import Wire
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory

pytestmark = pytest.mark.postgres

QUERIES = queries.load("ninelives")
BACKENDS = "select pid from pg_stat_activity where application_name = %s"
BOUND_S = 20.0


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ninelives")]


def sockets() -> int:
    """Count the sockets of this process, connections among them."""
    links = (file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink())
    return sum(str(link).startswith("socket:") for link in links)


def end_backends(dsn: str, session_id: int) -> None:
    name = application_name(session_id)
    sql(dsn, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", name)


class Gate:
    """Holds openings of sessions up, in front of or behind the opening itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        self.reached, self.opened, self.passed = threading.Event(), threading.Event(), threading.Event()
        open_session = Session.open

        def gated(session: Session) -> None:
            try:
                if place == "behind":
                    open_session(session)
                self.reached.set()
                self.passed.wait(BOUND_S)
                if place == "before":
                    open_session(session)
            finally:
                self.opened.set()

        monkeypatch.setattr(Session, "open", gated)


def renewal(node: Node) -> asyncio.Task[None]:
    (found,) = [task for task in node._loops if "_renew_session" in repr(task.get_coro())]
    return found


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_node_that_is_closed_while_it_opens_a_new_session_leaves_nothing(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    async def main() -> None:
        node = make_node(store_dsn)
        await node.open()
        gate = Gate(monkeypatch, place)
        end_backends(store_dsn, node.session_id)
        await until("a new session is being opened", gate.reached.is_set)
        renewing = renewal(node)
        closing = asyncio.ensure_future(node.close())
        await until("its renewal is cancelled", lambda: renewing.done() or renewing.cancelling() > 0)
        gate.passed.set()
        async with asyncio.timeout(BOUND_S):
            await closing
        await until("the opening has ended", gate.opened.is_set)
        assert threads() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        left = "select count(*) from pg_stat_activity where application_name ~ '^ninelives [0-9]+$'"
        await until("no connection is left", lambda: sql(store_dsn, left) == [(0,)], 5.0)

    run(main())


@pytest.mark.parametrize("then", ["connects", "fails"])
def test_a_lane_whose_cancelling_is_swallowed_leaves_nothing(
    store_dsn: str, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """As asyncio.wait_for in psycopg does before Python 3.12, when the answer is there at the same moment."""

    async def main() -> None:
        node = make_node(store_dsn)
        await node.open()
        open_wire, opening = Wire.open, asyncio.Event()

        async def stubborn(*given: Any, **named: Any) -> Wire:
            opening.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if then == "fails":
                raise StoreUnavailable("refused")
            return await open_wire(*given, **named)

        monkeypatch.setattr(Wire, "open", stubborn)
        lane = node._lanes[0]
        lane.renew_connection()
        await opening.wait()
        async with asyncio.timeout(BOUND_S):
            await node.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        left = "select count(*) from pg_stat_activity where application_name ~ '^ninelives [0-9]+$'"
        await until("no connection is left", lambda: sql(store_dsn, left) == [(0,)], 5.0)

    run(main())


@contextmanager
def frozen(dsn: str, name: str) -> Iterator[None]:
    """Freeze the backends of an application, as a server that is cut off."""
    pids = [pid for (pid,) in sql(dsn, BACKENDS, name)]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def ends(closing: threading.Thread) -> bool:
    closing.start()
    closing.join(BOUND_S)
    return not closing.is_alive()


@pytest.mark.parametrize("ttl_s", [3000.0, 3.0], ids=["idle", "in a heartbeat"])
def test_a_session_says_no_goodbye_to_a_server_that_is_frozen(store_dsn: str, ttl_s: float) -> None:
    lost = threading.Event()
    made = Session(store_dsn, QUERIES, "test", Settings(ttl_s=ttl_s, connect_timeout_s=1), lambda _: lost.set())
    made.open()
    with frozen(store_dsn, made.application_name):
        assert made._connection is not None
        if ttl_s < 10.0:
            run(until("it waits for the answer to a heartbeat", made._connection.lock.locked))
        assert ends(threading.Thread(target=made.close, daemon=True))
        assert threads() == []


def test_a_session_whose_heartbeat_a_ttl_leaves_unanswered_is_lost(store_dsn: str) -> None:
    """A dead line says nothing, for as long as TCP likes; the session has expired by then, whoever may answer."""
    lost = threading.Event()
    made = Session(store_dsn, QUERIES, "test", Settings(ttl_s=0.5), lambda _: lost.set())
    made.open()
    with frozen(store_dsn, made.application_name):
        assert lost.wait(BOUND_S)
    made.close()
    assert threads() == []


def test_a_watch_ends_beside_a_server_that_is_frozen(store_dsn: str) -> None:
    made = Watch(store_dsn, QUERIES, Settings(look_s=0.02), lambda: 7, "nobody", lambda _: None)
    made.open()
    connected = "select count(*)::int from pg_stat_activity where application_name = %s"
    run(until("it watches", lambda: sql(store_dsn, connected, application_name(7)) == [(2,)]))
    with frozen(store_dsn, application_name(7)):
        run(until("it waits for an answer", lambda: any(one.lock.locked() for one in list(made._connections))))
        assert ends(threading.Thread(target=made.close, daemon=True))
        assert threads() == []


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with a step at work"])
def test_a_node_ends_while_its_server_is_stopped(run_directory: RunDirectory, tmp_path: Path, busy: bool) -> None:
    """It looks for a session, its lanes for connections and its step for an end: all that stops with it."""
    given = {"log": str(tmp_path / "log"), "gate": str(tmp_path / "gate")}
    with PostgresServer.create(run_directory, name=f"stopped-{busy}".lower()) as server:
        migrate(server.dsn)

        async def main() -> None:
            gc.collect()
            before = sockets()
            node = make_node(server.dsn, ttl_s=0.6, drain_s=0.1, connect_timeout_s=1)
            await node.open()
            if busy:
                await node.start(GATED, given)
                await until("its step is at work", (tmp_path / "gate.reached").exists)
            await asyncio.to_thread(server.stop)
            await until("it looks for a new session", lambda: node._renewing)
            async with asyncio.timeout(BOUND_S):
                await node.close()
            assert threads() == []
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert sockets() == before

        run(main())
