"""The server's configuration files. They belong to the rig, not to the server's user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ninelives_rig.cluster.errors import SettingRefused

# Durable as promised: nothing acknowledged may be lost by a crash of a process, the server or the machine.
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

DEFAULTS = DURABLE | {
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "wal_compression": "off",
    "jit": "off",
    # A killed client's statement ends, and its advisory lock is free, within this time.
    "client_connection_check_interval": "100ms",
    "autovacuum": "on",
    "autovacuum_naptime": "10s",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %q%a ",
    "log_lock_waits": "on",
    "track_io_timing": "on",
    # Shared memory in files of the data directory and in the main segment: nothing is left in /dev/shm
    # by a kill, and a container's small /dev/shm is no limit.
    "dynamic_shared_memory_type": "mmap",
    "min_dynamic_shared_memory": "16MB",
    "lc_messages": "C",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")

# Sockets are in a directory that only the server's user (and root) can enter; loopback asks for a password.
HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def checked(settings: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Return settings as texts. Raises SettingRefused for a name or value that no file could hold."""
    texts = {}
    for name, value in settings.items():
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        if not _NAME.fullmatch(name):
            raise SettingRefused(f"{name!r} is not the name of a PostgreSQL setting: use a-z and _")
        if any(ord(character) < 32 for character in text):
            raise SettingRefused(f"the value of {name} contains a control character: {text!r}")
        texts[name] = text
    return texts


def list_item(text: str) -> str:
    """Return a text as one item of a setting that holds a list."""
    quoted = text.replace('"', '""')
    return f'"{quoted}"'


def write(path: Path, settings: Mapping[str, str]) -> None:
    """Replace a configuration file as a whole."""
    lines = []
    for name, value in settings.items():
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{quoted}'\n")
    write_text(path, "".join(lines))


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole; the server's user may read it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)
