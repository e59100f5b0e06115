"""What an arm has left behind on the server: deadlocks that it had to end, transactions that nobody ends."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg

_PATIENCE_S = 5.0
_LOOK_S = 0.02
_DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"
_OPEN = """
    select count(*) from pg_stat_activity
     where datname = current_database() and application_name like 'ninelives %' and state like 'idle in transaction%'
"""


@dataclass(frozen=True)
class Leftovers:
    """Deadlocks that the server ended in this database meanwhile, and transactions of nodes that are still open."""

    deadlocks: int = 0
    idle_in_transaction: int = 0


def count_deadlocks(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """Return how many deadlocks the server has ended in this database since it last forgot (a crash makes it)."""
    return _count(connection, _DEADLOCKS)


def look_for_leftovers(connection: psycopg.Connection[tuple[object, ...]], deadlocks_before: int) -> Leftovers:
    """Look when all nodes are gone; the server gets a few seconds to see that the last of them are."""
    end = time.monotonic() + _PATIENCE_S
    while (left := _count(connection, _OPEN)) and time.monotonic() < end:
        time.sleep(_LOOK_S)
    return Leftovers(max(0, count_deadlocks(connection) - deadlocks_before), left)


def _count(connection: psycopg.Connection[tuple[object, ...]], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(str(row[0]))
