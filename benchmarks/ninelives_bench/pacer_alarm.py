"""An alarm of the kernel's with microseconds: the timers of asyncio and uvloop round up to whole milliseconds."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Times(ctypes.Structure):
    """struct itimerspec"""

    _fields_ = (
        ("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("at_s", ctypes.c_long), ("at_ns", ctypes.c_long),
    )  # fmt: skip


class Alarm:
    """Rings when it was set to; use ``with``. Without timerfd (other systems) the loop's own timers serve.

    ``on_ring`` returns when it is to ring next, None for never.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._times = _Times()
        self._pointer = ctypes.byref(self._times)
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1
        if hasattr(_libc, "timerfd_create"):
            self._fd = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        self.on_ring: Callable[[], float | None] = lambda: None

    def __enter__(self) -> Self:
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._rung)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._handle is not None:
            self._handle.cancel()

    def set(self, at: float | None) -> None:
        """Ring at ``at`` on the clock of ``time.perf_counter``, at once when that has passed; never for None."""
        if self._fd < 0:
            if at is not None:
                self._handle = self._loop.call_later(max(0.0, at - time.perf_counter()), self._rung)
            return
        # A time of nought disarms.
        self._times.at_s = int(at or 0)
        self._times.at_ns = int((at - int(at)) * 1e9) if at else 0
        if _libc.timerfd_settime(self._fd, _ABSOLUTE, self._pointer, None) != 0:
            raise OSError(ctypes.get_errno(), "the kernel refused to set the alarm of the load generator")

    def _rung(self) -> None:
        # Setting it makes the descriptor unreadable again, so there is no need to read it: one call to the kernel less.
        self.set(self.on_ring())
