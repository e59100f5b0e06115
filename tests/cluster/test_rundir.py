"""Run directories: made safely, removed at the end, and swept exactly."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.helpers import abandon

from ninelives_rig import rundir
from ninelives_rig.cluster.errors import RunDirectoryRefused
from ninelives_rig.identity import ProcessIdentity
from ninelives_rig.rundir import PROCESSES, RunDirectory, Swept, interrupts_held_back, sweep, user_root


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_run_ends_its_processes_and_removes_its_directory(base: Path, sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(sleeper.pid)
    with RunDirectory.create(base=base) as run:
        run.register_process(identity, "worker")
        identity.kill(signal.SIGSTOP)
        assert [entry.what for entry in run.processes()] == ["worker"]
    assert sleeper.wait() == -signal.SIGKILL
    assert not run.path.exists()
    assert run.close() == []


def test_keep_leaves_the_directory_now_and_for_later_sweeps(base: Path, sleeper: subprocess.Popen[bytes]) -> None:
    with RunDirectory.create(base=base, keep=True) as run:
        (run.path / "evidence").write_text("kept")
        run.register_process(ProcessIdentity.of(sleeper.pid), "worker")
    assert sleeper.wait() == -signal.SIGKILL
    abandon(run)
    assert sweep(base).kept == [run.path]
    assert (run.path / "evidence").read_text() == "kept"


def test_a_sweep_ends_exactly_the_registered_processes_of_dead_owners(
    base: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    dead = RunDirectory.create(base=base)
    with subprocess.Popen(["sleep", "60"]) as registered:
        identity = ProcessIdentity.of(registered.pid)
        dead.register_process(identity, "worker")
        other = ProcessIdentity.of(sleeper.pid)
        dead.register_process(ProcessIdentity(other.pid, other.start_time - 1), "a pid handed out again")
        abandon(dead)
        with RunDirectory.create(base=base, sweep_first=False) as alive:
            swept = sweep(base)
            assert alive.path.exists()
        assert registered.wait() == -signal.SIGKILL
    assert (swept.removed, swept.ended, swept.problems) == ([dead.path], [identity], [])
    assert not dead.path.exists()
    assert sleeper.poll() is None


def test_a_live_run_is_not_touched(base: Path, sleeper: subprocess.Popen[bytes]) -> None:
    with RunDirectory.create(base=base) as run:
        run.register_process(ProcessIdentity.of(sleeper.pid), "worker")
        swept = sweep(base)
        assert (swept.removed, swept.ended) == ([], [])
        assert sleeper.poll() is None
        assert run.path.is_dir()


def test_the_next_run_sweeps_and_says_so(base: Path) -> None:
    dead = RunDirectory.create(base=base)
    abandon(dead)
    with RunDirectory.create(base=base) as run:
        assert run.swept.removed == [dead.path]


def test_a_run_killed_while_it_was_made_is_swept(base: Path) -> None:
    half = user_root(base) / "r0badcafe"
    half.mkdir()
    (half / "owner.json").write_text('{"pid": 1')
    (user_root(base) / "notes").mkdir()
    assert sweep(base).removed == [half]
    assert (user_root(base) / "notes").is_dir()


def test_a_torn_last_line_of_the_registry_is_no_obstacle(base: Path, sleeper: subprocess.Popen[bytes]) -> None:
    dead = RunDirectory.create(base=base)
    dead.register_process(ProcessIdentity.of(sleeper.pid), "worker")
    with (dead.path / PROCESSES).open("a") as file:
        file.write('{"pid": 12')
    abandon(dead)
    assert sweep(base).removed == [dead.path]
    assert sleeper.wait() == -signal.SIGKILL


def test_two_sweeps_at_once_share_the_work(base: Path) -> None:
    dead = [RunDirectory.create(base=base, sweep_first=False) for _ in range(8)]
    for run in dead:
        abandon(run)
    results: list[Swept] = []
    threads = [threading.Thread(target=lambda: results.append(sweep(base))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path for swept in results for path in swept.removed) == sorted(run.path for run in dead)
    assert [swept.problems for swept in results] == [[]] * 4


def test_a_forked_child_does_not_remove_its_parents_run(run: RunDirectory) -> None:
    child = os.fork()
    if child == 0:
        run.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert run.path.is_dir()


def test_an_interrupt_waits_for_the_end_of_the_cleaning() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held_back():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("cleaned")
    assert done == ["cleaned"]


def test_a_place_that_cannot_be_used_is_refused_with_advice(base: Path) -> None:
    (base / "file").touch()
    with pytest.raises(RunDirectoryRefused, match="set TMPDIR"):
        RunDirectory.create(base=base / "file")
    with pytest.raises(RunDirectoryRefused, match="set TMPDIR"):
        RunDirectory.create(base=base / "missing")


def test_a_root_that_others_could_have_planted_is_refused(base: Path) -> None:
    (base / "elsewhere").mkdir()
    root = base / f"ninelives-{os.geteuid()}"
    root.symlink_to(base / "elsewhere")
    with pytest.raises(RunDirectoryRefused, match="not safe"):
        RunDirectory.create(base=base)
    root.unlink()
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(RunDirectoryRefused, match="not safe"):
        RunDirectory.create(base=base)


@pytest.mark.parametrize("name", ["a" * 70, "with,comma", "with\nline", b"not-utf8-\xff"])
def test_a_place_that_no_socket_or_dsn_can_name_is_refused_with_advice(base: Path, name: str | bytes) -> None:
    place = base / os.fsdecode(name)
    place.mkdir()
    with pytest.raises(RunDirectoryRefused, match="set TMPDIR") as refusal:
        RunDirectory.create(base=place)
    assert str(refusal.value).isprintable() and len(str(refusal.value).encode()) < 500
    assert list(place.iterdir()) == []


def test_a_relative_tmpdir_is_read_from_where_the_run_began(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "temp").mkdir()
    monkeypatch.chdir(base)
    monkeypatch.setenv("TMPDIR", "temp")
    with RunDirectory.create() as run:
        assert run.path.is_relative_to(base / "temp")


def test_every_interruption_is_held_back_while_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        done = []
        with pytest.raises(KeyboardInterrupt), interrupts_held_back():
            signal.raise_signal(signal.SIGHUP)
            done.append("cleaned")
        assert done == ["cleaned"]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_who_waits_for_another_run_says_so(
    base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rundir, "_LOCK_TIMEOUT_S", 0.0)
    monkeypatch.setattr(rundir, "_LOCK_NOTICE_S", 0.0, raising=False)
    with (user_root(base) / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RunDirectoryRefused, match="fuser"):
            RunDirectory.create(base=base)
    assert capsys.readouterr().err.count("waiting for another run") == 1
