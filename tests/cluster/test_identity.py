"""A process is a pid and a start time."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from tests.cluster.helpers import wait_until

from ninelives_rig.identity import ProcessIdentity, descendants, group_members, kill_all, wait_dead


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_is_known_by_pid_and_start_time(sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(sleeper.pid)
    assert identity.alive()
    assert not ProcessIdentity(identity.pid, identity.start_time + 1).alive()
    assert ProcessIdentity.current().pid == os.getpid()


def test_a_recycled_pid_is_not_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    earlier = ProcessIdentity(sleeper.pid, ProcessIdentity.of(sleeper.pid).start_time - 1)
    assert not earlier.kill(signal.SIGKILL)
    assert kill_all([earlier]) == []
    assert sleeper.poll() is None


def test_the_right_process_is_signalled_even_when_frozen(sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(sleeper.pid)
    assert identity.kill(signal.SIGSTOP)
    assert identity.alive()
    assert identity.kill(signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL
    assert not identity.kill(signal.SIGKILL)


def test_a_zombie_counts_as_dead() -> None:
    with subprocess.Popen(["true"]) as process:
        identity = ProcessIdentity.of(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not identity.alive()
        assert wait_dead([identity], 0) == []
        assert ProcessIdentity.of(process.pid) == identity


def test_who_does_not_exist_is_said(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    with pytest.raises(ProcessLookupError, match=str(sleeper.pid)):
        ProcessIdentity.of(sleeper.pid)


def test_init_is_never_signalled() -> None:
    with pytest.raises(ValueError, match="never"):
        ProcessIdentity(1, 0).kill(signal.SIGTERM)


def test_descendants_and_group_are_found() -> None:
    command = ["sh", "-c", "sh -c 'sleep 60 & wait' & wait"]
    with subprocess.Popen(command, start_new_session=True) as process:
        root = ProcessIdentity.of(process.pid)
        wait_until("shell, shell and sleep run", lambda: len(descendants(root)) == 2)
        below = descendants(root)
        assert group_members(process.pid) == sorted([root, *below])
        assert kill_all([root, *below]) == [root, *below]
        assert wait_dead([root, *below], 10) == []
    assert descendants(root) == []
