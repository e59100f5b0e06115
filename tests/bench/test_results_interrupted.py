"""Ctrl-C in the middle of a measurement: no summary, no process and no run directory is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ninelives_rig.rundir import OWNER, user_root


def owned_by(pid: int) -> list[Path]:
    """The run directories of a process."""
    return [path.parent for path in user_root().glob(f"r*/{OWNER}") if json.loads(path.read_text())["pid"] == pid]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ninelives_bench", "run", "--quick", "--only", "b7", "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        said = [line for line, _ in zip(iter(process.stderr.readline, ""), range(2), strict=False)]
        assert "b7" in said[-1], said
        time.sleep(1.5)  # Into the first arm.
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) > 3 and len(owned_by(process.pid)) == 1
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # As the terminal does: the nodes get it too.
        else:
            process.send_signal(number)
        process.stderr.read()
        code = process.wait(30)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 2)
    _gone, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    assert (out / "manifest.json").exists() and not (out / "summary.json").exists()
    # What a killed run leaves there is removed by the next one.
    assert len(owned_by(process.pid)) == (1 if number == signal.SIGKILL else 0)
