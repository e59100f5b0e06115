"""Who a process is: its pid together with its start time, because a pid alone is handed out again.

Nothing here signals a process before both have been compared, and where the kernel offers pidfds the
comparison and the signal refer to the same process even when the pid is recycled in between.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_POLL_S = 0.005


@dataclass(frozen=True, slots=True, order=True)
class ProcessIdentity:
    """One process of this boot: `start_time` counts clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of a process that exists now.

        Raises ProcessLookupError when there is none.
        """
        stat = _read_stat(pid)
        if stat is None:
            raise ProcessLookupError(errno.ESRCH, f"no process has pid {pid} now")
        return cls(pid, stat.start_time)

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Return the identity of the calling process."""
        return cls.of(os.getpid())

    def alive(self) -> bool:
        """Tell whether this very process still runs. A zombie that nobody has reaped counts as dead."""
        stat = _read_stat(self.pid)
        return stat is not None and stat.start_time == self.start_time and stat.state not in "ZX"

    def state(self) -> str:
        """Return the kernel's letter for what this very process does now (T: stopped); X when it is gone."""
        stat = _read_stat(self.pid)
        return stat.state if stat is not None and stat.start_time == self.start_time else "X"

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal if pid and start time both match; return whether it was sent.

        Raises PermissionError when the process belongs to somebody else.
        """
        if self.pid <= 1:
            raise ValueError(f"pid {self.pid} is never a process of the rig; refusing to signal it")
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
                raise
            return self._kill_by_pid(number)
        try:
            if not self.alive():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def _kill_by_pid(self, number: int) -> bool:
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent_pid: int
    group: int
    start_time: int


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    # The command name stands in brackets and may itself contain brackets and blanks.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(fields[0], int(fields[1]), int(fields[2]), int(fields[19]))


def _every_process() -> list[tuple[int, _Stat]]:
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            stat = _read_stat(int(entry.name))
            if stat is not None:
                found.append((int(entry.name), stat))
    return found


def every_process() -> list[ProcessIdentity]:
    """Return every live process of the machine (of this pid namespace), in pid order."""
    return sorted(ProcessIdentity(pid, stat.start_time) for pid, stat in _every_process() if stat.state not in "ZX")


def group_members(group: int) -> list[ProcessIdentity]:
    """Return the live processes of a process group, in pid order."""
    return sorted(
        ProcessIdentity(pid, stat.start_time)
        for pid, stat in _every_process()
        if stat.group == group and stat.state not in "ZX"
    )


def descendants(root: ProcessIdentity) -> list[ProcessIdentity]:
    """Return the live children of a process, their children and so on, parents first; [] when it is gone."""
    if not root.alive():
        return []
    children: dict[int, list[ProcessIdentity]] = {}
    for pid, stat in _every_process():
        if stat.state not in "ZX":
            children.setdefault(stat.parent_pid, []).append(ProcessIdentity(pid, stat.start_time))
    found: list[ProcessIdentity] = []
    seen = {root.pid}
    queue = [root.pid]
    while queue:
        for child in sorted(children.get(queue.pop(0), [])):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                queue.append(child.pid)
    return found


def kill_all(processes: Iterable[ProcessIdentity], number: int = signal.SIGKILL) -> list[ProcessIdentity]:
    """Signal each process that is still the one named; return those that were reached."""
    reached = []
    for process in processes:
        with suppress(PermissionError):
            if process.kill(number):
                reached.append(process)
    return reached


def wait_dead(processes: Iterable[ProcessIdentity], timeout_s: float) -> list[ProcessIdentity]:
    """Wait until every process is dead; return the ones still alive when the time is up."""
    end = time.monotonic() + timeout_s
    left = [process for process in processes if process.alive()]
    while left and time.monotonic() < end:
        time.sleep(_POLL_S)
        left = [process for process in left if process.alive()]
    return left


def wait_stopped(processes: Iterable[ProcessIdentity], timeout_s: float) -> int:
    """Wait until every process that still lives is stopped (SIGSTOP); return how many are when the time is up."""
    end = time.monotonic() + timeout_s
    all_of_them = list(processes)
    while any(process.state() not in "TZX" for process in all_of_them) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return sum(process.state() == "T" for process in all_of_them)
