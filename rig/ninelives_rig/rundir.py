"""One directory per run, and the promise that a run leaves nothing behind.

    TMPDIR/ninelives-UID/           one root per user; also the lock of creation and sweeping
      r1a2b3c4d/owner.json          which process (pid, start time, boot) the run belongs to
      r1a2b3c4d/processes.jsonl     every process of the run, appended as it is started
      r1a2b3c4d/...                 whatever the run keeps there

A run that ends in order removes its directory. What a killed run leaves is removed by the next one: `sweep`
ends exactly the registered processes of dead owners (pid and start time both match) and removes the
directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from ninelives_rig.cluster.errors import RunDirectoryRefused
from ninelives_rig.cluster.processes import postgres_processes, remove_left_segment
from ninelives_rig.identity import ProcessIdentity, descendants, kill_all, wait_dead

OWNER = "owner.json"
PROCESSES = "processes.jsonl"
KEPT = "kept"
_LOCK = "lock"
SOCKET_PATH_MAX = 107
"""The longest path, in bytes, that the system takes for a unix socket."""

# The fork server's; the one of PostgreSQL is as long.
_LONGEST_SOCKET = "/r12345678/f/listener-12345678"
_SHOWN_MAX = 120
_LOCK_TIMEOUT_S = 60.0
_LOCK_NOTICE_S = 2.0
_DEATH_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Registered:
    """A line of processes.jsonl. `data` is set for a postmaster: its backends are found by it."""

    identity: ProcessIdentity
    what: str
    data: Path | None = None


@dataclass(slots=True)
class Swept:
    """What one sweep did: directories removed and kept, processes ended, and what it could not do."""

    removed: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    ended: list[ProcessIdentity] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def user_root(base: Path | None = None) -> Path:
    """Return this user's root for run directories below `base` (TMPDIR, else /tmp), made if it is missing.

    Raises RunDirectoryRefused when it cannot be written, cannot be the place of a socket, or is a link or somebody
    else's.
    """
    # Absolute, because servers stand in another directory than we do.
    base = (base or Path(os.environ.get("TMPDIR") or "/tmp")).absolute()
    root = base / f"ninelives-{os.geteuid()}"
    _refuse_unfit(root)
    try:
        root.mkdir(mode=0o711, exist_ok=True)
        status = root.lstat()
    except OSError as error:
        raise RunDirectoryRefused(_unusable(root, error)) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise RunDirectoryRefused(
            f"{root} is a link, belongs to another user or can be written by others, so it is not safe "
            "to use: remove it, or set TMPDIR to a directory of your own"
        )
    # A umask may have taken away what the server's user needs: to pass through.
    if status.st_mode & 0o111 != 0o111:
        root.chmod(0o711)
    return root


def _refuse_unfit(root: Path) -> None:
    """Refuse a root below which no socket can lie, or whose name no connection string can hold."""
    longest = len(os.fsencode(root)) + len(_LONGEST_SOCKET)
    text = str(root)
    why = None
    if longest > SOCKET_PATH_MAX:
        why = f"is {longest - SOCKET_PATH_MAX} bytes too long for the sockets of a run"
    elif "," in text:
        why = "contains a comma, which separates hosts in a connection string"
    elif not text.isprintable():
        why = "contains a control character, or one that is not UTF-8"
    if why is not None:
        name = repr(text if len(text) < _SHOWN_MAX else f"{text[:_SHOWN_MAX]}...")
        raise RunDirectoryRefused(f"{name} {why}: set TMPDIR to another directory, such as /tmp")


def _unusable(path: Path, error: OSError) -> str:
    return (
        f"cannot write {path}: {error.strerror}. Free some space or inodes there, or set TMPDIR to a "
        "directory that you can write and that has room (a run needs about 200 MB, a long one several GB)"
    )


class RunDirectory:
    """The directory of one run, owned by the process that made it."""

    def __init__(self, path: Path, owner: ProcessIdentity, keep: bool) -> None:
        self.path = path
        self.owner = owner
        self.keep = keep
        self.swept = Swept()
        self._closed = False

    @classmethod
    def create(cls, *, keep: bool = False, base: Path | None = None, sweep_first: bool = True) -> RunDirectory:
        """Make a new directory for a run of this process, after sweeping what dead runs left.

        `keep` leaves the directory (not the processes) in place at the end. `.swept` says what was swept.
        Raises RunDirectoryRefused when there is no place, no room, or the lock stays held for a minute.
        """
        root = user_root(base)
        swept = sweep(base) if sweep_first else Swept()
        owner = ProcessIdentity.current()
        path = root / f"r{secrets.token_hex(4)}"
        with _locked(root):
            try:
                path.mkdir(mode=0o711)
                path.chmod(0o711)
                _write(path / OWNER, {**_place(), "pid": owner.pid, "start_time": owner.start_time})
                (path / PROCESSES).touch(mode=0o600)
                if keep:
                    (path / KEPT).touch()
            except OSError as error:
                shutil.rmtree(path, ignore_errors=True)
                raise RunDirectoryRefused(_unusable(path, error)) from error
        run = cls(path, owner, keep)
        run.swept = swept
        return run

    def register_process(self, identity: ProcessIdentity, what: str, data: Path | None = None) -> None:
        """Write down a process as soon as it is started, so that a later run can end it."""
        register_process(self.path, identity, what, data)

    def processes(self) -> list[Registered]:
        """Return everything registered so far, in order."""
        return _read_processes(self.path)

    def keep_directory(self) -> None:
        """Leave the directory in place at the end, and also when this run is killed."""
        self.keep = True
        (self.path / KEPT).touch()

    def close(self, keep: bool | None = None) -> list[ProcessIdentity]:
        """End every registered process that lives and remove the directory; return what had to be ended.

        `keep` overrides what was chosen at the start. A second call does nothing, and neither does a call in
        a forked child. Ctrl-C is held back until the end (at most about 20 s).
        Raises RunDirectoryRefused when a process survives or a file cannot be removed.
        """
        if self._closed or ProcessIdentity.current() != self.owner:
            return []
        keep = self.keep if keep is None else keep
        with interrupts_held_back():
            self._closed = True
            ended, problems = _end_processes(self.path)
            if keep:
                (self.path / KEPT).touch()
            elif not problems:
                problems += _remove(self.path)
        if problems:
            raise RunDirectoryRefused(f"{self.path} could not be cleaned up: {'; '.join(problems)}")
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def register_process(run: Path, identity: ProcessIdentity, what: str, data: Path | None = None) -> None:
    """Append a process to a run's list; also callable by the started process itself, as its first act.

    One write(2) in append mode: it outlives a SIGKILL of the writer, and lines of several writers never mix.
    No fsync: after a crash of the machine none of the processes exists.
    """
    entry = {"pid": identity.pid, "start_time": identity.start_time, "what": what}
    if data is not None:
        entry["data"] = str(data)
    line = json.dumps(entry).encode() + b"\n"
    handle = os.open(run / PROCESSES, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.write(handle, line) != len(line):
            raise RunDirectoryRefused(f"{run / PROCESSES} took only part of a line: is the disk full?")
    except OSError as error:
        raise RunDirectoryRefused(_unusable(run / PROCESSES, error)) from error
    finally:
        os.close(handle)


def sweep(base: Path | None = None) -> Swept:
    """Remove what dead runs of this user left, and nothing else.

    Directories of live owners are not touched, nor are kept ones (only their processes are ended), nor those
    of another pid namespace, whose processes cannot be seen from here. Two sweeps at once take turns.
    """
    root = user_root(base)
    swept = Swept()
    with _locked(root):
        for path in sorted(root.glob("r????????")):
            if not _owner_dead(path):
                continue
            ended, problems = _end_processes(path)
            swept.ended += ended
            swept.problems += problems
            if (path / KEPT).exists():
                swept.kept.append(path)
            elif not problems:
                problems = _remove(path)
                swept.problems += problems
                if not problems:
                    swept.removed.append(path)
    return swept


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Hold SIGINT, SIGTERM and SIGHUP back while cleaning up, then deliver the first one that came.

    Only the main thread can do this; elsewhere it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _place() -> dict[str, str]:
    """Which boot and which pid namespace pids are to be read in."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {"boot": boot.read_text().strip(), "pid_namespace": str(Path("/proc/self/ns/pid").readlink())}


def _write(path: Path, value: dict[str, Any]) -> None:
    with path.open("x") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())


def _owner_dead(path: Path) -> bool:
    """Tell whether a run's owner is gone. Under the lock a directory without owner is a dead one."""
    try:
        owner = json.loads((path / OWNER).read_text())
        identity = ProcessIdentity(int(owner["pid"]), int(owner["start_time"]))
    except (OSError, ValueError, KeyError, TypeError):
        return True
    here = _place()
    if owner.get("boot") != here["boot"]:
        return True
    return owner.get("pid_namespace") == here["pid_namespace"] and not identity.alive()


def _same_boot(path: Path) -> bool:
    try:
        return bool(json.loads((path / OWNER).read_text())["boot"] == _place()["boot"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read_processes(path: Path) -> list[Registered]:
    try:
        lines = (path / PROCESSES).read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
            identity = ProcessIdentity(int(entry["pid"]), int(entry["start_time"]))
            data = Path(entry["data"]) if "data" in entry else None
            found.append(Registered(identity, str(entry["what"]), data))
        except (ValueError, KeyError, TypeError):
            continue  # The last line of a writer whose disk was full: what it started dies with its parent.
    return found


def _end_processes(path: Path) -> tuple[list[ProcessIdentity], list[str]]:
    """SIGKILL what is registered, with its descendants; frozen processes die of it too."""
    registered = _read_processes(path) if _same_boot(path) else []
    data = {entry.data for entry in registered if entry.data is not None}
    ended: list[ProcessIdentity] = []
    # Twice: a process may have started another between the look and the signal.
    for _ in range(2):
        targets: list[ProcessIdentity] = []
        for entry in registered:
            if entry.identity.alive():
                targets += [entry.identity, *descendants(entry.identity)]
        for directory in data:
            targets += postgres_processes(directory)
        ended += kill_all(dict.fromkeys(targets))
        left = wait_dead(targets, _DEATH_TIMEOUT_S)
        if left:
            return ended, [f"process {process.pid} did not die of SIGKILL" for process in left]
    for directory in data:
        remove_left_segment(directory)
    return ended, []


def _remove(path: Path) -> list[str]:
    try:
        shutil.rmtree(path)
    except OSError as error:
        if path.exists():
            return [f"cannot remove {error.filename or path}: {error.strerror}"]
    return []


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the user's lock; the kernel lets it go when the holder dies."""
    began = time.monotonic()
    told = False
    try:
        handle = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RunDirectoryRefused(_unusable(root / _LOCK, error)) from error
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited_s = time.monotonic() - began
                if not told and waited_s > _LOCK_NOTICE_S:
                    told = True
                    print(
                        f"waiting for another run, which is cleaning up ({root / _LOCK})", file=sys.stderr, flush=True
                    )
                if waited_s > _LOCK_TIMEOUT_S:
                    raise RunDirectoryRefused(
                        f"another run has held {root / _LOCK} for {_LOCK_TIMEOUT_S:.0f} s; see who with "
                        f"`fuser {root / _LOCK}`, end it, and start again"
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)
