"""What Ctrl-C, SIGTERM and a lost terminal do, depending on how far a command is. One state for the whole process.

While processes are being started and killed, the first one stops the run, and whatever follows finds it cleaning up
already and stops nothing. From the seal on there is complete evidence: the first one is answered and changes nothing,
the next one stops the judging. So the exit code, the verdict that is written and what is said are always the same.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ENDING = "already ending: processes are being ended and files removed; this takes some seconds"
_TO_THE_END = "all evidence is there, and it is judged to the end; once more (Ctrl-C) stops the judging"


class _Phase(Enum):
    STOPPABLE = "the next interruption stops the work"
    SEALING = "nothing stops the work, and it has to be said that it goes on"
    JUDGING = "the second interruption stops the work"
    ENDING = "nothing stops the work any more"


class Interruption:
    """How far the command is. Only the main thread of a process has one that does anything."""

    def __init__(self) -> None:
        self._phase = _Phase.STOPPABLE
        self._answered = False

    def sealing(self) -> None:
        """Nothing may stop what comes now: the run is over, and its evidence is being sealed."""
        self._phase = _Phase.SEALING

    def judging(self) -> None:
        """What comes now can be done again at any time, so somebody who insists may stop it."""
        self._phase = _Phase.JUDGING

    def ending(self) -> None:
        """Only cleaning up is left, and what it all came to is known."""
        self._phase = _Phase.ENDING

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Be the handler of the signals: raise ``KeyboardInterrupt`` at most once, or say why not."""
        if self._phase is _Phase.STOPPABLE or (self._phase is _Phase.JUDGING and self._answered):
            self._phase = _Phase.ENDING
            raise KeyboardInterrupt
        if not self._answered:
            self._answered = True
            _say(_ENDING if self._phase is _Phase.ENDING else _TO_THE_END)


_present: Interruption | None = None


@contextmanager
def interruptible(*, for_good: bool = False) -> Iterator[Interruption]:
    """Handle the signals until the end of the block; a block inside another one shares its state.

    ``for_good`` is for a program whose last act this is: its end is not interrupted any more, because a signal would
    kill it there with another exit code than it is leaving with. A signal that is ignored, as by nohup, stays ignored.
    """
    global _present
    if _present is not None or threading.current_thread() is not threading.main_thread():
        yield _present or Interruption()
        return
    _present = Interruption()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, _present.handle)
    try:
        yield _present
    finally:
        for number, handler in before.items():
            # Ignored, not handled: while Python itself ends, it takes every handler of ours away.
            signal.signal(number, signal.SIG_IGN if for_good else handler)
        _present = None


def _say(line: str) -> None:
    # Straight to the descriptor: the handler may have come in the middle of a buffered write.
    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), f"{line}\n".encode())
