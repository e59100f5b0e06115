"""The size of the tables and what became of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

_LOOK = """
select c.relname, pg_total_relation_size(c.oid), pg_relation_size(c.oid), pg_indexes_size(c.oid),
       s.n_dead_tup, s.n_tup_upd, s.n_tup_hot_upd, s.autovacuum_count, s.autoanalyze_count
  from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_stat_user_tables s on s.relid = c.oid
 where n.nspname = 'ninelives' and c.relkind in ('r', 'p') order by 1
"""


@dataclass(frozen=True, slots=True)
class Table:
    """One table at one moment; ``total_bytes`` with its indexes."""

    name: str
    total_bytes: int
    heap_bytes: int
    index_bytes: int
    dead_tuples: int
    updates: int
    hot_updates: int
    vacuums: int
    analyzes: int


def look_at_tables(dsn: str) -> dict[str, Table]:
    """Return the tables of the schema by name, statistics as the server has them by now."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return {str(row[0]): Table(*row) for row in connection.execute(_LOOK)}


def describe_growth(before: dict[str, Table], after: dict[str, Table]) -> list[dict[str, Any]]:
    """Return what became of each table that has grown or was updated; the HOT share is null without updates."""
    told = []
    for name, end in after.items():
        begin = before[name]
        updates = end.updates - begin.updates
        if not updates and end.total_bytes == begin.total_bytes:
            continue
        told.append(
            {
                "name": name, "bytes_before": begin.total_bytes, "bytes_after": end.total_bytes,
                "heap_bytes": end.heap_bytes, "index_bytes": end.index_bytes, "dead_tuples": end.dead_tuples,
                "hot_share": (end.hot_updates - begin.hot_updates) / updates if updates else None,
                "vacuums": end.vacuums - begin.vacuums, "analyzes": end.analyzes - begin.analyzes,
            }
        )  # fmt: skip
    return told
