"""Waits that name what they waited for, and a run of another process to be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ninelives_rig.cluster.processes import postgres_processes, remove_left_segment
from ninelives_rig.identity import ProcessIdentity, kill_all, wait_dead
from ninelives_rig.rundir import OWNER, RunDirectory

BOUND_S = 20.0
SERVE = Path(__file__).with_name("serve_until_killed.py")


def wait_until(what: str, fact: Callable[[], bool], timeout_s: float = BOUND_S) -> None:
    """Wait for a fact; fail naming it when it does not come true in time."""
    end = time.monotonic() + timeout_s
    while not fact():
        assert time.monotonic() < end, f"not within {timeout_s} s: {what}"
        time.sleep(0.005)


def abandon(run: RunDirectory) -> None:
    """Make a run look as if its owner were dead and its pid handed out again."""
    owner = json.loads((run.path / OWNER).read_text())
    owner["start_time"] -= 1
    (run.path / OWNER).write_text(json.dumps(owner))


@dataclass
class Serving:
    """A rig process of its own with a running server."""

    process: subprocess.Popen[str]
    run: Path
    data: Path
    dsn: str
    postmaster: ProcessIdentity
    user: str

    def server_processes(self) -> list[ProcessIdentity]:
        """The live processes of its server."""
        return postgres_processes(self.data)


@contextmanager
def serving(
    base: Path,
    python: Sequence[str] = (sys.executable,),
    script: Path = SERVE,
    environment: Mapping[str, str] | None = None,
    **who: int | list[int],
) -> Iterator[Serving]:
    """Start a rig process with a server below `base`; it is killed at the end if the test has not done it."""
    process = subprocess.Popen(
        [*python, str(script), str(base)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "TMPDIR": str(base), **(environment or {})},
        **who,  # type: ignore[call-overload]  # user, group and extra_groups, passed on
    )
    data: Path | None = None
    try:
        told = json.loads(process.stdout.readline())
        data = Path(told["data"])
        postmaster = ProcessIdentity(*told["postmaster"])
        yield Serving(process, Path(told["run"]), data, told["dsn"], postmaster, told["user"])
    finally:
        process.kill()
        process.communicate()
        if data is not None:
            # A failed test must not leave a frozen server behind, even if its directory is gone already.
            left = postgres_processes(data)
            kill_all(left)
            wait_dead(left, BOUND_S)
            remove_left_segment(data)
