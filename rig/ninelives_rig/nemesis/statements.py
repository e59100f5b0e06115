"""Faults that a server deals out by itself: read-only, impatient, out of connections, ended backends, old snapshots.

They are set with SQL, so that they work on any server on which the run may set them; what they change is set back.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import ClassVar

import psycopg
from psycopg import sql

from ninelives_rig.nemesis.base import Nemesis

Connection = psycopg.Connection[tuple[object, ...]]
_RELOAD_TIMEOUT_S = 10.0
_LOOK_S = 0.01
_BACKENDS = "select pid from pg_stat_activity where application_name like 'ninelives %' order by pid"


class _SqlNemesis(Nemesis):
    def connect(self, options: str = "") -> Connection:
        """Open a connection past every line."""
        return psycopg.connect(
            self.ground.dsn, autocommit=True, connect_timeout=10, application_name="rig nemesis", options=options
        )

    def ask(self, connection: Connection, query: str) -> str:
        """Return the single value that a query yields, as a text."""
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return str(row[0])


class _SettingNemesis(_SqlNemesis):
    """Change one setting of the whole server for a while."""

    setting: ClassVar[str]
    value: ClassVar[str]
    shown: ClassVar[str]
    _before = ""

    def begin(self) -> bool:
        """Set it, and see in a new connection that it holds."""
        self._before = self._show()
        self._change(sql.SQL("alter system set {} = {}").format(sql.Identifier(self.setting), sql.Literal(self.value)))
        self.tell(f"{self.setting} is {self._await(self.shown)} in a new connection")
        self.lasts_from_now()
        return True

    def heal(self) -> None:
        """Set it back to what the server's file says."""
        self._change(sql.SQL("alter system reset {}").format(sql.Identifier(self.setting)))
        self.tell_over(f"{self.setting} is {self._await(self._before)} in a new connection")

    def _change(self, statement: sql.Composed) -> None:
        with self.connect("-c statement_timeout=0") as connection:
            connection.execute(statement)
            connection.execute("select pg_reload_conf()")

    def _show(self) -> str:
        with self.connect() as connection:
            return self.ask(connection, f"show {self.setting}")

    def _await(self, wanted: str) -> str:
        """Return what a new connection sees once the postmaster, which births it, has read its file again."""
        end = time.monotonic() + _RELOAD_TIMEOUT_S
        while (seen := self._show()) != wanted and time.monotonic() < end:
            time.sleep(_LOOK_S)
        return seen


class ReadOnly(_SettingNemesis):
    """Let the server refuse every write, as a standby does behind a failover."""

    action = "read-only"
    setting = "default_transaction_read_only"
    value = shown = "on"


class Impatient(_SettingNemesis):
    """Let the server end whatever takes longer than a few milliseconds."""

    action = "impatient"
    setting = "statement_timeout"
    value, shown = "3", "3ms"


class EndBackends(_SqlNemesis):
    """End every other connection of the nodes, chosen by lot."""

    action = "end-backends"
    lasts = False

    def begin(self) -> bool:
        """End them; false while there are none."""
        with self.connect() as connection:
            pids = [int(str(row[0])) for row in connection.execute(_BACKENDS)]
            chosen = self.ground.chance.sample(pids, (len(pids) + 1) // 2)
            if not chosen:
                return False
            query = "select count(*) from unnest(%s::int[]) as p(pid) where pg_terminate_backend(pid)"
            row = connection.execute(query, [chosen]).fetchone()
        assert row is not None
        self.tell(f"{row[0]} of {len(pids)} backends of nodes ended")
        return True


class HoldSnapshot(_SqlNemesis):
    """Hold an old snapshot open, so that nothing that dies can be cleaned up."""

    action = "hold-snapshot"
    _held: Connection | None = None

    def begin(self) -> bool:
        """Begin a transaction that sees the database as it is now."""
        self._held = self.connect()
        self._held.execute("begin isolation level repeatable read")
        horizon = self.ask(self._held, "select pg_current_snapshot()")
        self.tell(f"snapshot {horizon} is held by backend {self._held.info.backend_pid}")
        self.lasts_from_now()
        return True

    def heal(self) -> None:
        """End that transaction."""
        assert self._held is not None
        horizon = self.ask(self._held, "select pg_current_snapshot()")
        self._held.close()
        self.tell_over(f"still saw {horizon}")


class TakeConnections(_SqlNemesis):
    """Take every connection that the server has left, so that nobody gets a new one."""

    action = "take-connections"
    _taken: tuple[Connection, ...] = ()

    def begin(self) -> bool:
        """Connect until the server refuses."""
        taken: list[Connection] = []
        refusal = ""
        while not refusal:
            try:
                taken.append(self.connect())
            except psycopg.OperationalError as error:
                refusal = " ".join(str(error).split()).rpartition("FATAL: ")[2]
        self._taken = tuple(taken)
        self.tell(f"{len(taken)} connections taken, then: {refusal}")
        self.lasts_from_now()
        return True

    def heal(self) -> None:
        """Give them back."""
        for connection in self._taken:
            with suppress(psycopg.Error):
                connection.close()
        self.tell_over(f"{len(self._taken)} connections given back")
