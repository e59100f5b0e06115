"""A migrated database for the tests of the store: made once, emptied for every test."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ninelives.migrate import migrate
from ninelives_rig.cluster.server import PostgresServer

_TABLES = (
    "flow_plan, node_session, flow_instance, flow_step, flow_intent, flow_lease, flow_wake, flow_signal"
)


@pytest.fixture(scope="module")
def migrated_dsn(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """The DSN of a database of this module's own with the schema `ninelives`."""
    name = "module_" + request.module.__name__.rpartition(".")[2]
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name} template template0".encode())
    dsn = make_conninfo(postgres_server.dsn, dbname=name)
    migrate(dsn)
    return dsn


@pytest.fixture
def empty_store(migrated_dsn: str) -> Callable[[], str]:
    """A function that cuts everybody off, empties the tables and returns the DSN."""

    def empty() -> str:
        with psycopg.connect(migrated_dsn, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            connection.execute("set search_path = ninelives")
            connection.execute(f"truncate {_TABLES} restart identity".encode())
        return migrated_dsn

    return empty


@pytest.fixture
def store_dsn(empty_store: Callable[[], str]) -> str:
    """The DSN of an empty store that nobody else works on."""
    return empty_store()
