"""Where and on what a run took place: the commit, the versions, the machine, the server's settings."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import psycopg

_DISTRIBUTIONS = ("ninelives", "psycopg", "orjson", "uvloop")
_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "shared_buffers",
    "max_connections",
    "checkpoint_timeout",
    "max_wal_size",
    "wal_buffers",
    "commit_delay",
    "autovacuum",
    "default_transaction_isolation",
    "client_connection_check_interval",
    "io_method",
    "data_checksums",
)


def describe_commit() -> tuple[str, bool]:
    """Return the commit of the checkout and whether it differs from it; ("unknown", False) outside a checkout."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return "unknown", False
    return commit, bool(_git("status", "--porcelain", "--untracked-files=no"))


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def describe_environment() -> dict[str, object]:
    """Return the machine and the versions of what runs on it."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)),
        "cpu_model": _first_value(Path("/proc/cpuinfo"), "model name"),
        "memory_kb": _first_value(Path("/proc/meminfo"), "MemTotal"),
        "load_average_1m": round(os.getloadavg()[0], 2),
        "packages": {name: _version(name) for name in _DISTRIBUTIONS},
    }


def _first_value(path: Path, name: str) -> str | None:
    try:
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip().removesuffix(" kB")
    except OSError:
        pass
    return None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def read_server_settings(dsn: str) -> dict[str, str]:
    """Return the settings of the server that bear on durability and speed, as it reports them."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "select name, current_setting(name) from pg_settings where name = any(%s) order by name", [list(_SETTINGS)]
        ).fetchall()
    return {str(name): str(value) for name, value in rows}
