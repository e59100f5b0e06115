"""A node's line to the server: what it passes, holds, drops and tells of it, with a real server behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.cluster.helpers import wait_until

from ninelives_rig.nemesis.lines import TO_NODE, TO_SERVER, Lines
from ninelives_rig.refusal import Refused
from ninelives_rig.rundir import RunDirectory

pytestmark = pytest.mark.postgres

BOTH = (TO_SERVER, TO_NODE)


@pytest.fixture
def lines(database_dsn: str, run_directory: RunDirectory, request: pytest.FixtureRequest) -> Iterator[Lines]:
    """Two lines to a database of this test's own."""
    opened = Lines(database_dsn, run_directory.path / f"l{abs(hash(request.node.name)) % 10**6}")
    opened.open(["one", "two"])
    yield opened
    opened.close()


class Asking(threading.Thread):
    """One statement on its way over a connection; what came of it stands in ``answer``."""

    def __init__(self, connection: psycopg.Connection, statement: str) -> None:
        super().__init__(daemon=True)
        self._connection, self._statement = connection, statement
        self.answer: object = None
        self.start()

    def run(self) -> None:
        try:
            cursor = self._connection.execute(self._statement.encode())
            self.answer = cursor.fetchone() if cursor.description else "done"
        except psycopg.Error as error:
            self.answer = error

    def ended(self) -> object:
        self.join(20.0)
        assert not self.is_alive(), "the statement never ended"
        return self.answer


def connect(dsn: str) -> psycopg.Connection:
    return psycopg.connect(dsn, autocommit=True, connect_timeout=10)


def until_bytes(lines: Lines, state: str, *directions: str) -> None:
    """Wait until the line has held or dropped something."""
    wait_until(f"bytes are {state}", lambda: lines.set("one", state, *directions)[state] > 0)


def test_what_is_held_arrives_later_in_whole(lines: Lines) -> None:
    with connect(lines.dsn("one")) as connection, connect(lines.dsn("two")) as other:
        lines.set("one", "held", *BOTH)
        asking = Asking(connection, "select 41 + 1")
        until_bytes(lines, "held", *BOTH)
        assert other.execute("select 2").fetchone() == (2,)  # the other line passes
        assert asking.answer is None
        lines.set("one", "open", *BOTH)
        assert asking.ended() == (42,)
        assert connection.execute("select 3").fetchone() == (3,)


def test_a_connection_that_lost_bytes_ends_when_the_line_passes_again(lines: Lines) -> None:
    with connect(lines.dsn("one")) as connection:
        lines.set("one", "dropped", *BOTH)
        asking = Asking(connection, "select 1")
        until_bytes(lines, "dropped", *BOTH)
        assert asking.answer is None
        lines.set("one", "open", *BOTH)
        assert isinstance(asking.ended(), psycopg.OperationalError)
    with connect(lines.dsn("one")) as again:
        assert again.execute("select 1").fetchone() == (1,)


def test_a_deaf_node_commits_and_is_not_told(lines: Lines, database_dsn: str) -> None:
    with connect(lines.dsn("one")) as connection, connect(database_dsn) as beside:
        connection.execute("create table witnessed (one int)")
        lines.set("one", "dropped", TO_NODE)
        asking = Asking(connection, "insert into witnessed values (1)")
        until_bytes(lines, "dropped", TO_NODE)
        wait_until("it is committed", lambda: beside.execute("select count(*) from witnessed").fetchone() == (1,))
        assert asking.answer is None
        lines.set("one", "open", *BOTH)
        assert isinstance(asking.ended(), psycopg.OperationalError)


def test_a_node_that_dies_takes_its_backend_along(lines: Lines, database_dsn: str) -> None:
    with connect(database_dsn) as beside:
        connection = connect(lines.dsn("one"))
        pid = connection.info.backend_pid
        alive = "select count(*) from pg_stat_activity where pid = %s"
        assert beside.execute(alive, [pid]).fetchone() == (1,)
        connection.pgconn.finish()
        wait_until("its backend is gone", lambda: beside.execute(alive, [pid]).fetchone() == (0,))


def test_a_node_that_dies_behind_a_cut_stays_for_the_server(lines: Lines, database_dsn: str) -> None:
    with connect(database_dsn) as beside:
        connection = connect(lines.dsn("one"))
        pid = connection.info.backend_pid
        alive = "select count(*) from pg_stat_activity where pid = %s"
        lines.set("one", "dropped", *BOTH)
        connection.pgconn.finish()
        until_closed = connect(lines.dsn("two"))
        assert until_closed.execute("select 1").fetchone() == (1,)  # the proxy's loop has gone round
        assert beside.execute(alive, [pid]).fetchone() == (1,)
        lines.set("one", "open", *BOTH)
        wait_until("its backend is gone", lambda: beside.execute(alive, [pid]).fetchone() == (0,))
        until_closed.close()


def test_a_line_to_a_server_that_is_away_refuses(run_directory: RunDirectory) -> None:
    lines = Lines(f"host={run_directory.path} port=6543 dbname=postgres", run_directory.path / "away")
    lines.open(["one"])
    try:
        with pytest.raises(psycopg.OperationalError):
            connect(lines.dsn("one"))
    finally:
        lines.close()


@pytest.mark.parametrize("dsn", ["host=a,b port=1,2", "dbname=x"])
def test_a_line_leads_to_one_server(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="one host and one port"):
        Lines(dsn, tmp_path / "lines")
