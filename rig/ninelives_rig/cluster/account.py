"""The operating-system user that a server runs as: PostgreSQL refuses root, so root lends it another."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ninelives_rig.cluster.errors import AccountRefused

# `nobody` exists nearly everywhere; initdb needs an entry in the passwd file.
_CANDIDATES = ("nobody", "daemon", "postgres")


@dataclass(frozen=True, slots=True)
class Account:
    """A user to run the server as."""

    name: str
    uid: int
    gid: int

    def may(self, path: Path, wanted: int) -> bool:
        """Tell by owner, group and mode whether this user has all of the `wanted` bits (4 r, 2 w, 1 x)."""
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid == self.uid:
            bits = mode >> 6
        elif status.st_gid == self.gid:
            bits = mode >> 3
        else:
            bits = mode
        return bits & wanted == wanted

    def blocked_at(self, path: Path) -> Path | None:
        """Return the first directory on the way to `path` that this user cannot enter, or None."""
        for parent in reversed(path.resolve().parents):
            if not self.may(parent, 1):
                return parent
        return None

    def unreadable(self, tree: Path) -> Path | None:
        """Return a place that keeps this user from using a tree of programs and files, or None."""
        blocked = self.blocked_at(tree)
        if blocked is not None:
            return blocked
        return next((path for path, wanted in _needs(tree) if not self.may(path, wanted)), None)


def _needs(tree: Path) -> Iterator[tuple[Path, int]]:
    for folder, _, names in os.walk(tree):
        yield Path(folder), 5
        for name in names:
            path = Path(folder, name)
            if path.is_symlink() and not path.exists():
                continue
            yield path, 5 if path.stat().st_mode & 0o100 else 4


def server_account() -> Account | None:
    """Choose the user for the server: None (stay who we are) for an ordinary user, another one for root.

    Raises AccountRefused when root finds no unprivileged user in the passwd file.
    """
    if os.geteuid() != 0:
        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            raise AccountRefused(
                f"user id {os.geteuid()} has no entry in the passwd file, which initdb needs: add one, "
                "run as root or another user, or give your own server with --dsn"
            ) from None
        return None
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise AccountRefused(
        f"PostgreSQL refuses to run as root and none of the users {', '.join(_CANDIDATES)} exists: "
        "add one (useradd -r postgres), run as an ordinary user, or give your own server with --dsn"
    )
