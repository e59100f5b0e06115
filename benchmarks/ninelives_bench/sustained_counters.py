"""The server's own counters of WAL, checkpoints and I/O; their views differ between releases of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import psycopg

_VIEWS: Final = ("pg_stat_wal", "pg_stat_checkpointer", "pg_stat_bgwriter")
_IO_KEYS: Final = ("backend_type", "object", "context")
_COMPLETE: Final = re.compile(
    r"checkpoint complete: wrote (\d+) buffers.*?(\d+) WAL file\(s\) added, (\d+) removed, (\d+) recycled;"
    r" write=([0-9.]+) s, sync=([0-9.]+) s, total=([0-9.]+) s; sync files=(\d+), longest=([0-9.]+) s"
)
_VACUUM: Final = re.compile(r'automatic vacuum of table "[^"]*\.ninelives\.([^".]+)"')
_SCANNED: Final = re.compile(r"pages: .*?(\d+) scanned")
_WAL: Final = re.compile(r"WAL usage: (\d+) records, (\d+) full page images, (\d+) bytes")
_ELAPSED: Final = re.compile(r"elapsed: ([0-9.]+) s")

Counters = dict[str, float]


def look_at_counters(dsn: str) -> Counters:
    """Return every numeric counter of the views that this server has, by view and column, or by place in pg_stat_io."""
    found: Counters = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        for view in _VIEWS:
            row = connection.execute("select to_regclass(%s)", [view]).fetchone()
            if row is not None and row[0] is not None:
                found |= {f"{view}.{key}": value for key, value in _numbers(connection, view)}
        row = connection.execute("select count(*), sum(size) from pg_ls_waldir()").fetchone()
        assert row is not None
        found |= {"pg_wal.files": float(row[0]), "pg_wal.bytes": float(row[1])}
        for line in _rows(connection, "pg_stat_io"):
            place = "/".join(str(line[key]) for key in _IO_KEYS)
            found |= {f"io {place}.{key}": float(line[key]) for key in line if _is_number(line[key])}
    return found


def counted_since(before: Counters, after: Counters) -> Counters:
    """Return what has changed, rounded to a thousandth."""
    changes = {key: round(after[key] - before.get(key, 0.0), 3) for key in after}
    return {key: change for key, change in changes.items() if change and not key.endswith(".op_bytes")}


def checkpoints_of(lines: Iterable[str]) -> list[dict[str, float]]:
    """Return what the log says of each checkpoint that was completed: what it wrote, and what it did to the WAL."""
    names = ("buffers", "added", "removed", "recycled", "write_s", "sync_s", "total_s", "files", "longest_sync_s")
    found = (_COMPLETE.search(line) for line in lines)
    return [dict(zip(names, map(float, match.groups()), strict=True)) for match in found if match is not None]


def vacuums_of(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return what the log says of each automatic vacuum of the runtime's tables: pages, and WAL that it wrote."""
    found: list[dict[str, Any]] = []
    current: dict[str, Any] | None = None
    for line in lines:
        named = _VACUUM.search(line)
        if named is not None:
            current = {"table": named[1]}
            found.append(current)
        elif not line.startswith("\t"):
            current = None
        if current is None:
            continue
        if (pages := _SCANNED.search(line)) is not None:
            current["pages"] = int(pages[1])
        if (wal := _WAL.search(line)) is not None:
            current |= {"records": int(wal[1]), "full_pages": int(wal[2]), "wal_bytes": int(wal[3])}
        if (took := _ELAPSED.search(line)) is not None:
            current["seconds"] = float(took[1])
    return found


def _numbers(connection: psycopg.Connection, view: str) -> Iterable[tuple[str, float]]:
    for line in _rows(connection, view):
        yield from ((key, float(value)) for key, value in line.items() if _is_number(value))


def _rows(connection: psycopg.Connection, view: str) -> list[dict[str, Any]]:
    answer = connection.execute(f"select * from {view}".encode())
    names = [column.name for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer]


def _is_number(value: object) -> bool:
    return not isinstance(value, bool | str) and hasattr(value, "__float__")
