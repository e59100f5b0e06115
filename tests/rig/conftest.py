"""Whole rigs, started as a user starts them, with a place of their own for run directories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from ninelives_rig.identity import ProcessIdentity
from ninelives_rig.rundir import sweep

TIMEOUT_S = 120.0


class RunningRig:
    """One `ninelives-rig run` in a process of its own, in a process group of its own."""

    def __init__(self, base: Path, out: Path, *arguments: str) -> None:
        self.base = base
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ninelives_rig", "run", *arguments, "--out", str(out)],
            env={**os.environ, "TMPDIR": str(base)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def finish(self) -> tuple[int, str, str]:
        """Wait for the end; returns exit code, standard output, standard error."""
        output, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, output.decode(), errors.decode()

    def events(self, name: str) -> list[dict[str, object]]:
        """Read the coordinators' events of this name, of all arms so far."""
        lines = [
            line
            for path in sorted(self.out.glob("arms/*/history/coordinator.jsonl"))
            for line in path.read_bytes().split(b"\n")[:-1]
        ]
        return [event for event in map(orjson.loads, lines) if event["event"] == name]

    def nodes(self) -> list[ProcessIdentity]:
        """Every node started so far, dead or alive."""
        started = self.events("process.started")
        return [ProcessIdentity(int(str(e["child_pid"])), int(str(e["child_start_time"]))) for e in started]

    def registered(self) -> list[ProcessIdentity]:
        """Every process that the run has written down in its run directory, the server included."""
        lines = [
            line
            for path in self.base.glob("ninelives-*/r*/processes.jsonl")
            for line in path.read_bytes().split(b"\n")[:-1]
        ]
        return [ProcessIdentity(entry["pid"], entry["start_time"]) for entry in map(orjson.loads, lines)]

    def receipts(self) -> list[Path]:
        """The receipts so far."""
        return list(self.out.glob("arms/*/receipts/*.json"))

    def run_directories(self) -> list[Path]:
        """Run directories that still exist."""
        return list(self.base.glob("ninelives-*/r*"))


@pytest.fixture
def base() -> Iterator[Path]:
    """A place for run directories that every user can enter, which pytest's own tmp_path is not."""
    path = Path(tempfile.mkdtemp(prefix="nl-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    sweep(path)
    shutil.rmtree(path)


@pytest.fixture
def start_rig(base: Path, tmp_path: Path) -> Iterator[Callable[..., RunningRig]]:
    """Start rigs; what still runs at the end of the test is killed."""
    rigs: list[RunningRig] = []

    def start(*arguments: str) -> RunningRig:
        rigs.append(RunningRig(base, tmp_path / f"bundle-{len(rigs)}", *arguments))
        return rigs[-1]

    yield start
    for rig in rigs:
        rig.process.kill()
        rig.process.wait(TIMEOUT_S)
        for stream in (rig.process.stdout, rig.process.stderr):
            if stream is not None:
                stream.close()
