"""One connection of an explored operation, and the server's word on who waits for whom."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGresult

from ninelives_rig.refusal import Refused

_SETTINGS = (
    "set plan_cache_mode = force_generic_plan",
    "set enable_seqscan = off",
    "set jit = off",
    # Order and locks are the same, and an exploration has thousands of commits.
    "set synchronous_commit = off",
    "set lock_timeout = '60s'",
)
GATE = 70_12_09
"""The first half of the advisory locks that hold a statement between its snapshot and its first row lock."""

_ANSWER_MS = 1
_SILENCE_MAX_S = 30.0
_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class StatementFailed(Exception):
    """The server refused a statement; its transaction is rolled back."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{message} ({sqlstate})")
        self.sqlstate = sqlstate
        self.message = message


class Monitor:
    """A connection beside the explored ones: asks who waits, and holds the gates."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, application_name="ninelives explore")
        for setting in _SETTINGS:
            self.connection.execute(setting.encode())
        self.explored: list[int] = []

    def waits(self, pid: int) -> bool:
        """Tell whether this backend waits for a lock that another explored one or a gate keeps from it."""
        query = "select pg_blocking_pids(%s) && %s::int[]"
        pids = [*self.explored, self.connection.info.backend_pid]
        row = self.connection.execute(query, [pid, pids], prepare=True).fetchone()
        return row == (True,)

    def shut_gate(self, pid: int) -> None:
        """Let gated statements of this backend wait behind their snapshot."""
        self.connection.execute("select pg_advisory_lock(%s, %s)", [GATE, pid], prepare=True)

    def open_gate(self, pid: int) -> None:
        """Let the gated statement of this backend go on."""
        self.connection.execute("select pg_advisory_unlock(%s, %s)", [GATE, pid], prepare=True)


class Backend:
    """One connection; statements are sent without waiting, and observed until they end or wait for a lock."""

    def __init__(self, dsn: str, monitor: Monitor, statements: Mapping[str, str]) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True, application_name="ninelives explored")
        for setting in _SETTINGS:
            self._connection.execute(setting.encode())
        self._pg = self._connection.pgconn
        self._monitor = monitor
        self._statements = statements
        self._prepared: set[bytes] = set()
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self.pid = self._pg.backend_pid
        monitor.explored.append(self.pid)

    def close(self) -> None:
        """Close the connection; what was open is rolled back."""
        self._connection.close()

    def begin(self) -> None:
        """Begin a transaction; its snapshots come with its statements."""
        self._plain(b"begin")

    def commit(self) -> None:
        """Commit; the locks are free when this returns."""
        self._plain(b"commit")

    def roll_back(self) -> None:
        """Roll back what is open, a statement that still waits included."""
        if self._pg.transaction_status == pq.TransactionStatus.ACTIVE:
            self._connection.cancel_safe(timeout=_SILENCE_MAX_S)
            while self._pg.get_result() is not None:
                pass
        if self._pg.transaction_status != pq.TransactionStatus.IDLE:
            self._plain(b"rollback")

    def send(self, block: bytes, parameters: Sequence[bytes | None], binary: bool) -> None:
        """Send one statement of the runtime and do not wait for it."""
        if block not in self._prepared:
            result = self._pg.prepare(block, self._statements[block.decode()].encode())
            if result.status not in _GOOD:
                raise Refused(f"the server does not prepare {block.decode()}: {result.error_message.decode()}")
            self._prepared.add(block)
        self._pg.send_query_prepared(block, parameters, [int(binary)] * len(parameters), 1)

    def observe(self) -> PGresult | None:
        """Return the answer of the statement that was sent, or None as soon as the server says that it waits.

        Raises ``StatementFailed`` for a refusal, and ``Refused`` when there is neither an answer nor a wait.
        """
        until = time.monotonic() + _SILENCE_MAX_S
        while time.monotonic() < until:
            if self._poll.poll(_ANSWER_MS):
                self._pg.consume_input()
                if not self._pg.is_busy():
                    return self._answer()
            elif self._monitor.waits(self.pid):
                return None
        raise Refused(f"a statement neither ended nor waited within {_SILENCE_MAX_S:.0f} s; is the server alive?")

    def _answer(self) -> PGresult:
        result = self._pg.get_result()
        assert result is not None
        while self._pg.get_result() is not None:
            pass
        if result.status not in _GOOD:
            sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            raise StatementFailed(sqlstate, result.error_message.decode(errors="replace").strip())
        return result

    def _plain(self, text: bytes) -> None:
        result = self._pg.exec_(text)
        if result.status not in _GOOD:
            raise Refused(f"{text.decode()} failed: {result.error_message.decode(errors='replace').strip()}")
