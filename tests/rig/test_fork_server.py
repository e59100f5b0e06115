"""The end of the fork server waits for nothing that may never come."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ninelives_rig.engines import load_engine
from ninelives_rig.identity import ProcessIdentity, descendants
from ninelives_rig.nodes import fork_server
from ninelives_rig.rundir import RunDirectory


@pytest.mark.chaos
def test_a_fork_server_that_hangs_holds_nobody_up(base: Path) -> None:
    with RunDirectory.create(base=base) as run:
        with fork_server(load_engine("naive"), run):
            server = next(one for one in descendants(ProcessIdentity.current()) if "forkserver" in command_of(one))
            server.kill(signal.SIGSTOP)
            # Only so that a failure ends: a wait without a bound would be cut off here.
            signal.alarm(20)
        signal.alarm(0)
    assert not server.alive()


def command_of(process: ProcessIdentity) -> str:
    return Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
