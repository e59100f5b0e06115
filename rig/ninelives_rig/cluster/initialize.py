"""Make a server's directories and its first data."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ninelives_rig.cluster.account import Account
from ninelives_rig.cluster.binaries import Binaries
from ninelives_rig.cluster.errors import (
    ClusterError,
    DiskFull,
    RunDirectoryRefused,
    ServerFailed,
    StaleDirectory,
)
from ninelives_rig.cluster.spawn import spawn
from ninelives_rig.identity import ProcessIdentity
from ninelives_rig.rundir import SOCKET_PATH_MAX, RunDirectory

SUPERUSER = "postgres"

_INITDB_TIMEOUT_S = 120.0
_ROOM_BYTES = 32 * 1024 * 1024
_LOG_LINES = 12


@dataclass(frozen=True, slots=True)
class Places:
    """Where a server keeps what. `home` belongs to the rig; `data` and `sockets` to the server's user only."""

    home: Path

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def sockets(self) -> Path:
        """The directory of the unix socket; its name is short because a socket's path may be."""
        return self.home / "s"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.home / "server.log"


def make_cluster(run: RunDirectory, places: Places, programs: Binaries, account: Account | None, password: str) -> int:
    """Make the directories, run initdb, and return the new system identifier; leave nothing when it fails.

    Data checksums are on; the locale is C.UTF-8; unix socket connections are trusted (the directory lets only
    the server's user and root in) and loopback asks for the password.
    Raises StaleDirectory, RunDirectoryRefused, DiskFull or ServerFailed.
    """
    if places.home.exists():
        raise StaleDirectory(f"{places.home} exists already: give the server another name, or remove it")
    try:
        with disk_full_named(places.home):
            _make_directories(places, account)
            _initdb(run, places, programs, account, password)
            return _identifier_on_disk(places.data)
    except BaseException:
        shutil.rmtree(places.home, ignore_errors=True)
        raise


def failure(what: str, home: Path, text: str) -> ClusterError:
    """Return the error for a server program that failed: DiskFull if it was that, else ServerFailed."""
    tail = "\n".join(text.splitlines()[-_LOG_LINES:]) or "(nothing)"
    # The log may be on the very disk that is full, so its words are not the only sign.
    full = "No space left on device" in text or "Disk quota exceeded" in text
    if full or shutil.disk_usage(home).free < _ROOM_BYTES:
        return DiskFull(
            f"{what}: no space left in {home}. Free some, or set TMPDIR to a file system with more room. "
            f"Its last words:\n{tail}"
        )
    return ServerFailed(f"{what}. Its last words (log: {home / 'server.log'}):\n{tail}")


@contextmanager
def disk_full_named(home: Path) -> Iterator[None]:
    """Turn an operating-system error of a write below `home` into DiskFull or RunDirectoryRefused."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"no space left in {home}: free some, or set TMPDIR to a file system with more room"
            ) from error
        raise RunDirectoryRefused(
            f"cannot use {error.filename or home}: {error.strerror}; check it, or set TMPDIR elsewhere"
        ) from error


def _make_directories(places: Places, account: Account | None) -> None:
    longest = len(os.fsencode(places.sockets / ".s.PGSQL.65535"))
    if longest > SOCKET_PATH_MAX:
        raise RunDirectoryRefused(
            f"a socket below {places.sockets} would have a path of {longest} bytes, and {SOCKET_PATH_MAX} is "
            "the most that the system allows: set TMPDIR to a shorter directory, such as /tmp"
        )
    for directory, mode in ((places.home, 0o711), (places.data, 0o700), (places.sockets, 0o700)):
        directory.mkdir()
        directory.chmod(mode)
    places.log.touch(mode=0o600)
    if account is None:
        return
    os.chown(places.data, account.uid, account.gid)
    os.chown(places.sockets, account.uid, account.gid)
    blocked = account.blocked_at(places.data)
    if blocked is not None:
        raise RunDirectoryRefused(
            f"the server runs as user {account.name}, who cannot enter {blocked}: "
            "set TMPDIR to a directory that every user can enter, such as /tmp"
        )


def _initdb(run: RunDirectory, places: Places, programs: Binaries, account: Account | None, password: str) -> None:
    secret = places.sockets / "password"
    handle = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(handle, "w") as file:
        file.write(password)
        if account is not None:
            os.fchown(handle, account.uid, account.gid)
    command = [str(programs.program("initdb")), "-D", str(places.data), "-U", SUPERUSER]
    command += [f"--pwfile={secret}", "--auth-local=trust", "--auth-host=scram-sha-256"]
    command += ["--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-instructions"]
    # The new files need no fsync: a machine that crashes now loses the whole run anyway.
    command += ["--no-sync"]
    with spawn(command, account=account, output=subprocess.PIPE) as process:
        try:
            run.register_process(ProcessIdentity.of(process.pid), "initdb", places.data)
            said = process.communicate(timeout=_INITDB_TIMEOUT_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            raise ServerFailed(
                f"initdb did not end within {_INITDB_TIMEOUT_S:.0f} s: is the disk of {places.home} overloaded?"
            ) from None
        finally:
            process.kill()
    if process.returncode != 0:
        raise failure(f"initdb failed with code {process.returncode}", places.home, said)
    secret.unlink()


def _identifier_on_disk(data: Path) -> int:
    """Read the system identifier: the first eight bytes of the control file, in every version."""
    with (data / "global" / "pg_control").open("rb") as file:
        return int(struct.unpack("=Q", file.read(8))[0])
