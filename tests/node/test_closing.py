"""Closing ends in bounded time, whatever the server does, and leaves no thread, task or connection."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.node.helpers import make_node, run, sql, until

from ninelives import Node, Settings, queries
from ninelives.session import Session, application_name
from ninelives.watch import Watch

pytestmark = pytest.mark.postgres

QUERIES = queries.load("ninelives")
BACKENDS = "select pid from pg_stat_activity where application_name = %s"
BOUND_S = 20.0


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ninelives")]


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


@pytest.mark.parametrize("ttl_s", [3000.0, 0.3], ids=["idle", "in a heartbeat"])
def test_a_session_says_no_goodbye_to_a_server_that_is_frozen(store_dsn: str, ttl_s: float) -> None:
    lost = threading.Event()
    made = Session(store_dsn, QUERIES, "test", Settings(ttl_s=ttl_s, connect_timeout_s=1), lambda _: lost.set())
    made.open()
    with frozen(store_dsn, made.application_name):
        assert made._connection is not None
        if ttl_s < 1.0:
            run(until("it waits for the answer to a heartbeat", made._connection.lock.locked))
        assert ends(threading.Thread(target=made.close, daemon=True))
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
