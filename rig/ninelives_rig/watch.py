"""Watching an arm move: what the server shows of it, whether it still gets anywhere."""

from __future__ import annotations

import time
from contextlib import suppress

import psycopg
from psycopg.sql import Composed

from ninelives_rig.engines.base import Progress

_POLL_S = 0.25


class Probe:
    """Asks the server how far an arm is, over a connection of its own; an unreachable server changes nothing."""

    def __init__(self, dsn: str, query: Composed) -> None:
        self._dsn = dsn
        self._query = query
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._asked_at = 0.0
        self.latest = Progress(0, 0, 0, 0)

    def look(self) -> Progress:
        """Return the latest progress, asked anew at most every quarter of a second."""
        if time.monotonic() - self._asked_at >= _POLL_S:
            with suppress(psycopg.OperationalError):
                self.latest = self._ask()
            self._asked_at = time.monotonic()
        return self.latest

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self) -> Progress:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._dsn, autocommit=True, connect_timeout=5)
            self._connection.execute("set statement_timeout = '10s'")
        row = self._connection.execute(self._query).fetchone()
        assert row is not None
        instances, terminal, steps, takeovers = (int(str(value)) for value in row)
        return Progress(instances, terminal, steps, takeovers)


class Movement:
    """Whether an arm still moves. Three TTLs without any change, with work left, is a standstill."""

    def __init__(self, ttl_s: float) -> None:
        self._patience_s = 3 * ttl_s
        self._mark: tuple[int, ...] | None = None
        self._changed_at = time.monotonic()

    def note(self, mark: tuple[int, ...]) -> None:
        """Take the arm's present state; a new one is a movement."""
        if mark != self._mark:
            self._mark = mark
            self._changed_at = time.monotonic()

    @property
    def stands_still(self) -> bool:
        """Whether nothing has changed for three TTLs."""
        return time.monotonic() - self._changed_at > self._patience_s
