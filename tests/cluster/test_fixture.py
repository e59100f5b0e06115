"""The fixtures that the other tests stand on."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from ninelives_rig.cluster.server import PostgresServer

pytestmark = pytest.mark.postgres


def test_each_database_is_fresh_and_its_own(make_database: Callable[[], str], postgres_server: PostgresServer) -> None:
    first, second = make_database(), make_database()
    with psycopg.connect(first) as connection:
        connection.execute("create table mine (n int)")
    with psycopg.connect(second) as connection:
        tables = connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone()
    assert tables == (0,)
    assert postgres_server.running


def test_a_test_may_leave_a_connection_open(database_dsn: str) -> None:
    with psycopg.connect(database_dsn) as connection:
        assert connection.execute("select current_setting('fsync'), current_setting('jit')").fetchone() == (
            "on",
            "off",
        )
