"""Small programs run as real processes, and bounded waits for facts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

TIMEOUT_S = 60.0


def start_script(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python program given as text; standard output and error are captured."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a program; returns its exit code and what it printed."""
    output, errors = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, output + errors


def wait_for(what: str, fact: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until ``fact`` is true; the failure says what was waited for."""
    end = time.monotonic() + timeout_s
    while not fact():
        assert time.monotonic() < end, f"waited {timeout_s:.0f} s in vain for: {what}"
        time.sleep(0.01)
