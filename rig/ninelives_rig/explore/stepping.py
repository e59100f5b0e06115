"""What lets the store's code run one statement at a time: a wire that only queues, and a loop without a clock."""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from psycopg.pq.abc import PGresult

from ninelives.wire import OnAnswer, Statement, Wire


@dataclass(slots=True)
class Exchange:
    """What one operation sends as one transaction, and how far it has come.

    ``binary`` says in which form the parameters are; ``on_answer`` gets the results, or a refusal.
    """

    statements: list[Statement]
    on_answer: OnAnswer
    binary: bool = True
    results: list[PGresult] = field(default_factory=list)


class SteppedWire(Wire):
    """A wire that sends nothing: exchanges wait in ``queue`` for whoever steps through them."""

    def __init__(self, queue: deque[Exchange], loop: asyncio.AbstractEventLoop) -> None:
        self._queue = queue
        self._loop = loop
        self.lost = False
        self.backend_pid = 0
        self.on_lost = None
        self.on_notify = None

    def send(self, statements: Sequence[Statement], on_answer: OnAnswer) -> None:
        """Queue one exchange."""
        self._queue.append(Exchange(list(statements), on_answer))

    def send_texts(self, statements: Sequence[Statement], on_answer: OnAnswer) -> None:
        """Queue one exchange whose parameters are texts, as of code that uses plain psycopg."""
        self._queue.append(Exchange(list(statements), on_answer, binary=False))

    def close(self) -> None:
        """Take nothing more."""
        self.lost = True


def _nothing() -> None:
    """Do nothing."""


class _NoWaiting(selectors.SelectSelector):
    """Waits for nothing: time that the loop would spend passes at once, and a loop without timers stops."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.stop_loop: Callable[[], None] = _nothing

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            self.stop_loop()
        elif timeout > 0:
            self.now_s += timeout
        return []


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop that runs until its tasks wait for an answer; what they sleep takes no time."""

    def __init__(self) -> None:
        self._idle = _NoWaiting()
        super().__init__(self._idle)
        self._idle.stop_loop = self.stop

    def time(self) -> float:
        """The loop's own time in seconds; it moves only when everything sleeps."""
        return self._idle.now_s

    def settle(self) -> None:
        """Run everything that can run; returns when all tasks have ended or wait for an answer."""
        self.run_forever()
