"""The processes and the shared memory of one server, also of one whose postmaster is dead."""

from __future__ import annotations

import ctypes
from pathlib import Path

from ninelives_rig.identity import ProcessIdentity, every_process

_PROC = Path("/proc")
_IPC_RMID = 0


def cluster_name(data: Path) -> str:
    """Return the name in the process titles of the server of a data directory RUN/NAME/data: `RUN-NAME`."""
    return f"{data.parent.parent.name}-{data.parent.name}"


def postgres_processes(data: Path) -> list[ProcessIdentity]:
    """Return the live server processes that work in a data directory, whoever their parent is now."""
    return [identity for identity in every_process() if _works_in(identity.pid, data)]


def _works_in(pid: int, data: Path) -> bool:
    """Tell by working directory and program: every server process stands in its data directory.

    A shell that stands there is not meant, so the program must be `postgres`. In containers even root may not
    look at another user's working directory; there the process title, which names the run, decides.
    """
    process = _PROC / str(pid)
    try:
        if (process / "comm").read_text().strip() != "postgres":
            return False
        place = str((process / "cwd").readlink()).removesuffix(" (deleted)")
        return place == str(data.resolve())
    except PermissionError:
        pass
    except OSError:
        return False
    try:
        title = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return False
    return title.startswith(f"postgres: {cluster_name(data)}: ") or f" -D {data} " in title


def remove_left_segment(data: Path) -> bool:
    """Remove the System V segment of a dead postmaster of this data directory; return whether there was one.

    It is the one thing of a killed server that is neither a process nor a file. Meant is the segment that
    postmaster.pid names, made by that very postmaster, and attached to nobody.
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
        head, *rows = (_PROC / "sysvipc" / "shm").read_text().splitlines()
    except (OSError, ValueError):
        return []
    return [dict(zip(head.split(), map(int, row.split()), strict=False)) for row in rows]
