"""Start server programs as another user, in their own session, bound to the life of this process.

The kernel's parent-death signal follows the *thread* that forked. A server started by a short-lived thread
would die with that thread, so one thread per process does all the starting and lives as long as the process.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO

from ninelives_rig.cluster.account import Account

_LAUNCHER = Path(__file__).with_name("launch.py")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

_Process = subprocess.Popen[bytes]
_Order = tuple[list[str], IO[bytes] | int, Future[_Process]]


class _Spawner:
    def __init__(self) -> None:
        self.orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="server-spawner", daemon=True).start()

    def _serve(self) -> None:
        while True:
            command, output, answer = self.orders.get()
            try:
                answer.set_result(_popen(command, output))
            except BaseException as error:
                answer.set_exception(error)


_lock = threading.Lock()
_spawner: _Spawner | None = None


def _forget_parent() -> None:
    global _lock, _spawner
    _lock, _spawner = threading.Lock(), None


# Threads do not survive a fork: a forked child starts its own.
os.register_at_fork(after_in_child=_forget_parent)


def spawn(
    command: Sequence[str],
    *,
    account: Account | None,
    output: IO[bytes] | int,
    death_signal: int = signal.SIGQUIT,
) -> _Process:
    """Start a program and return it at once; standard output and error go to `output`.

    It runs as `account` (None: as we are), in `/`, with a scrubbed environment and no inherited files, and
    gets `death_signal` when this process ends in any way. Raises OSError when not even Python can be started.
    """
    global _spawner
    with _lock:
        if _spawner is None:
            _spawner = _Spawner()
        spawner = _spawner
    uid, gid = (account.uid, account.gid) if account else (-1, -1)
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER)]
    orders = [str(number) for number in (os.getpid(), uid, gid, int(death_signal))]
    answer: Future[_Process] = Future()
    spawner.orders.put(([*launcher, *orders, *command], output, answer))
    return answer.result()


def _popen(command: list[str], output: IO[bytes] | int) -> _Process:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=_ENVIRONMENT,
        start_new_session=True,
    )
