"""Imported by the fork server alone: ties its life to the rig's, and the life of every process it forks to its own.

So kill -9 of the rig leaves no node, not even a frozen one. multiprocessing's own way is not enough: each forked
process holds the pipe whose closing tells the server to stop, so a living node keeps the server alive.
"""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def tie_to(parent: int) -> None:
    """Ask the kernel to kill this process when ``parent`` ends; end at once if it has ended already."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused to tie the process's life to the rig's")
    if os.getppid() != parent:
        os._exit(1)


def tie_every_child() -> None:
    """Tie this process to its parent, and whatever it forks from now on to this process."""
    tie_to(os.getppid())
    server = os.getpid()
    os.register_at_fork(after_in_child=lambda: tie_to(server))


tie_every_child()
