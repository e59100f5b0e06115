"""The one thing of a killed postmaster that is neither a process nor a file: its System V segment."""

from __future__ import annotations

import ctypes
from pathlib import Path

_IPC_RMID = 0


def remove_left_segment(data: Path) -> bool:
    """Remove the segment of a dead postmaster of this data directory; return whether there was one.

    The segment is the one that postmaster.pid names, made by that very postmaster, and attached to nobody.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        maker = int(lines[0])
        key, identifier = (int(text) for text in lines[6].split())
    except (OSError, ValueError, IndexError):
        return False
    for row in _segments():
        if (row["key"], row["shmid"], row["cpid"], row["nattch"]) == (key, identifier, maker, 0):
            return int(ctypes.CDLL(None).shmctl(identifier, _IPC_RMID, None)) == 0
    return False


def _segments() -> list[dict[str, int]]:
    try:
        head, *rows = Path("/proc/sysvipc/shm").read_text().splitlines()
    except (OSError, ValueError):
        return []
    # The permissions are octal digits; nothing here reads them.
    return [dict(zip(head.split(), map(int, row.split()), strict=False)) for row in rows]
