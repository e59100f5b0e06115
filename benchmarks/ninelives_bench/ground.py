"""The ground of a run: one server of our own, a fresh database for each measurement, and what it costs the server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from ninelives.migrate import migrate
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory

Options = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used since the beginning: CPU seconds of this process and of the server, bytes of WAL."""

    client_s: float
    server_s: float
    wal_bytes: int

    def since(self, before: Spent) -> Spent:
        """Return the difference."""
        return Spent(
            self.client_s - before.client_s, self.server_s - before.server_s, self.wal_bytes - before.wal_bytes
        )


class Ground:
    """The server that everything of one run is measured on, so that ratios are of one machine and one hour."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._databases = 0

    @contextmanager
    def database(self, *, tcp: bool = False) -> Iterator[str]:
        """Yield the DSN of a fresh database with the schema `ninelives`; it is dropped behind the block.

        Ends with a checkpoint, so that one measurement does not pay for the writes of another.
        """
        self._databases += 1
        name = f"bench_{self._databases}"
        with psycopg.connect(self.server.dsn, autocommit=True) as admin:
            admin.execute(f"create database {name}".encode())
        try:
            dsn = make_conninfo(self.server.dsn, dbname=name)
            migrate(dsn)
            yield make_conninfo(self.server.dsn_tcp, dbname=name) if tcp else dsn
        finally:
            with psycopg.connect(self.server.dsn, autocommit=True) as admin:
                admin.execute(f"drop database {name} with (force)".encode())
                admin.execute("checkpoint")

    def spent(self) -> Spent:
        """Read the counters; the CPU of backends that have ended meanwhile is missing, so keep them open."""
        times = psutil.Process(os.getpid()).cpu_times()
        server_s = 0.0
        for identity in self.server.processes():
            try:
                used = psutil.Process(identity.pid).cpu_times()
            except psutil.NoSuchProcess:
                continue
            server_s += used.user + used.system
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            row = connection.execute("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").fetchone()
        assert row is not None
        return Spent(times.user + times.system, server_s, int(row[0]))


@contextmanager
def open_ground(*, postgres: str | None = None, options: Options | None = None) -> Iterator[Ground]:
    """Make and start the server (`postgres`: "16" or "18", default the newest) and remove it behind the block."""
    with RunDirectory.create() as run, PostgresServer.create(run, name="pg", version=postgres, options=options) as own:
        yield Ground(own)
