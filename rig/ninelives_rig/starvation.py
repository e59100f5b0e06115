"""Starving a node from within, as a step would: the interpreter held in C, or the main thread asleep.

The coordinator writes a request and sends a signal; the node's handler does it, in its main thread between two
instructions, and answers how long it took. This is code of the rig's node, whatever the engine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

import orjson

SIGNAL = signal.SIGUSR1
HOLD, BLOCK = "hold", "block"
_DONE = {HOLD: "held the interpreter", BLOCK: "slept in its main thread"}


def answer_requests(folder: Path) -> None:
    """Let this process do what requests in ``folder`` ask of it, from now on."""
    # Unlike CDLL, this keeps the lock of the interpreter while the function runs: no thread of the process goes on.
    libc = ctypes.PyDLL(None)
    pid = os.getpid()

    def obey(number: int, frame: object) -> None:
        request = _request(folder, pid)
        if not request.exists():
            return
        asked = orjson.loads(request.read_bytes())
        began = time.monotonic()
        while (left_s := asked["seconds"] - (time.monotonic() - began)) > 0:
            if asked["kind"] == HOLD:
                libc.usleep(int(left_s * 1e6) + 1)
            else:
                time.sleep(left_s)
        _put(_answer(folder, pid), f"{_DONE[asked['kind']]} for {time.monotonic() - began:.1f} s".encode())

    signal.signal(SIGNAL, obey)


def ask(folder: Path, pid: int, kind: str, seconds: float) -> None:
    """Leave a request for a process, which it does at ``SIGNAL``; an earlier answer is gone then."""
    _answer(folder, pid).unlink(missing_ok=True)
    _put(_request(folder, pid), orjson.dumps({"kind": kind, "seconds": seconds}))


def answered(folder: Path, pid: int) -> str | None:
    """Return what the process has answered, or None as long as it has not."""
    try:
        return _answer(folder, pid).read_text()
    except FileNotFoundError:
        return None


def _request(folder: Path, pid: int) -> Path:
    return folder / f"starve-{pid}.request"


def _answer(folder: Path, pid: int) -> Path:
    return folder / f"starve-{pid}.answer"


def _put(path: Path, content: bytes) -> None:
    draft = path.with_suffix(".part")
    draft.write_bytes(content)
    draft.replace(path)
