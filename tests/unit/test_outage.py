"""While the server is away each kind of message is written at first, once a minute, and when it is over."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.node.helpers import run, until

from ninelives import Flow, Node, Settings, StoreUnavailable, queries
from ninelives.session import Outage, Session
from ninelives.watch import Watch

QUERIES = queries.load("ninelives")
SETTINGS = Settings(ttl_s=0.3, look_s=0.01)
TRIES = 5


def said(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == f"ninelives.{name}"]


def failing(times: int, then: Callable[[], Any], error: Exception) -> Callable[..., Any]:
    """Fail some times, then do something else."""
    left = iter(range(times))

    def call(*_: object, **__: object) -> Any:
        if next(left, None) is not None:
            raise error
        return then()

    return call


def test_an_outage_is_told_at_first_once_a_minute_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    outage = Outage(logging.getLogger("ninelives.test"), logging.INFO, lambda: now[0])
    outage.is_over("nothing was wrong")
    for second in range(150):
        now[0] = float(second)
        outage.goes_on("failed at %d", second)
    outage.is_over("back")
    told = ["failed at 0", "failed at 60", "failed at 120", "back (after 150 failures in 149.0 s)"]
    assert said(caplog, "test") == told
    outage.is_over("back")
    outage.goes_on("failed at %d", 150)
    assert said(caplog, "test")[4:] == ["failed at 150"]


def test_an_outage_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """What libpq says of a server that is down goes over two lines."""
    error = psycopg.OperationalError("connection refused\n\tIs the server running on that host?\n")
    Outage(logging.getLogger("ninelives.test"), logging.WARNING).goes_on("session %d: %s", 7, error)
    assert said(caplog, "test") == ["session 7: connection refused Is the server running on that host?"]


@pytest.mark.parametrize("rounds", ["_wait_round", "_look_round"])
def test_a_watch_is_quiet(rounds: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO)
    made = Watch("", QUERIES, SETTINGS, lambda: 1, "nobody", lambda _: None)

    class Connection:
        closed = False

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(made, "_connect", failing(TRIES, Connection, psycopg.OperationalError("away")))
    monkeypatch.setattr(made, rounds, lambda _: made._stop.set())
    made._guarded(getattr(made, rounds))
    first, last = said(caplog, "watch")
    assert first == "watch interrupted, tried again: away"
    assert last.startswith(f"watch goes on (after {TRIES} failures")


def test_a_session_is_quiet(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("ninelives.session.RETRY_S", 0.0)
    made = Session("", QUERIES, "test", SETTINGS, lambda _: None)

    class Row:
        def fetchone(self) -> tuple[object, ...]:
            made._stop.set()
            return (1,)

    one, other = socket.socketpair()
    stopper, stopped = socket.socketpair()
    with one, other, stopper, stopped:

        class Connection:
            closed = False
            fileno = one.fileno
            execute = staticmethod(failing(TRIES, Row, psycopg.OperationalError("held up")))

        made._beat(Connection(), stopped)  # type: ignore[arg-type]
    first, last = said(caplog, "session")
    assert first.endswith("heartbeat failed, tried again: held up")
    assert f"heartbeat answered again (after {TRIES} failures" in last


def test_a_node_without_a_session_is_quiet(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("ninelives.node.RENEW_DELAYS_S", (0.0, 0.0))
    node = Node("", flows=[Flow("tests.none", version="1").await_signal("go")], settings=SETTINGS)
    opened = Session("", QUERIES, "test", SETTINGS, lambda _: None)
    open_session = failing(TRIES, lambda: opened, StoreUnavailable("away"))

    class Control:
        def renew_connection(self) -> None:
            pass

    class Claimer:
        def wake(self) -> None:
            pass

    async def open_later() -> Session:
        session: Session = open_session()
        return session

    monkeypatch.setattr(node, "_open_session", open_later)
    node.control, node._claimer = Control(), Claimer()  # type: ignore[assignment]
    run(node._renew_session())
    first, last = said(caplog, "node")
    assert first == "no session yet: away"
    assert last.startswith(f"session {opened.session_id} is open (after {TRIES} failures")


def test_the_audit_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node("", flows=[Flow("tests.none", version="1").await_signal("go")], settings=Settings(ttl_s=0.2))
    node._session = Session("", QUERIES, "test", SETTINGS, lambda _: None)
    audited = threading.Event()

    def answered() -> list[Any]:
        audited.set()
        return []

    held_or_not = failing(2, answered, StoreUnavailable("away"))

    class Control:
        async def held(self, session_id: int) -> Any:
            return held_or_not()

    node.control = Control()  # type: ignore[assignment]

    async def main() -> None:
        auditing = asyncio.ensure_future(node._audit_loop())
        await until("an audit was answered", audited.is_set)
        auditing.cancel()

    run(main())
    first, last = said(caplog, "node")
    assert first == "no audit this time: away"
    assert last.startswith("audits go on (after 2 failures")
