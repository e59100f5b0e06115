"""A real PostgreSQL for tests: one embedded server per session, one empty database per test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def run_directory() -> Iterator[RunDirectory]:
    """A run directory for the whole session; what earlier killed sessions left is swept first."""
    with RunDirectory.create() as run:
        yield run


@pytest.fixture(scope="session")
def postgres_server(run_directory: RunDirectory) -> Iterator[PostgresServer]:
    """One running server that all tests share. Do not stop or crash it: make your own for that."""
    with PostgresServer.create(run_directory, name="shared", version=os.environ.get("NINELIVES_POSTGRES")) as server:
        yield server


@pytest.fixture
def make_database(postgres_server: PostgresServer) -> Iterator[Callable[[], str]]:
    """A function that makes a fresh empty database and returns its DSN; all are dropped after the test."""
    names: list[str] = []
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:

        def make() -> str:
            name = f"test_{os.getpid()}_{next(_numbers)}"
            connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
            names.append(name)
            return make_conninfo(postgres_server.dsn, dbname=name)

        yield make
        for name in names:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def database_dsn(make_database: Callable[[], str]) -> str:
    """The DSN (unix socket) of a fresh empty database of this test's own."""
    return make_database()
