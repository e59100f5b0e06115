"""Ctrl-C and SIGTERM: what was begun is cleaned up, and no error of the cleaning up hides that it was asked for."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interruption:
    """Use ``with``. Raises KeyboardInterrupt where the signal finds us, and remembers it.

    A driver or a loop that cleans up may raise an error of its own over it; ``check`` raises it again.
    """

    def __init__(self) -> None:
        self._came = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        else:
            self._before = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if it came."""
        if self._came:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        raise KeyboardInterrupt
