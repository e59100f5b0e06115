"""Open-loop arrivals: drawn from the seed before the run, issued when they are due, whatever the target does.

A loop that wakes late issues everything that has become due at once, and every response counts from the intended
arrival: a stall of the target or of the generator is in the percentiles, not missing from them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ninelives_bench.pacer_alarm import Alarm

Seconds = npt.NDArray[np.float64]

TICK_S: Final = 0.0002
"""Arrivals closer together than this are issued in one go; a wake for each would cost more than the commits."""


def poisson(rate_per_s: float, seconds: float, seed: int) -> Seconds:
    """Return due times of a Poisson process with exactly ``rate * seconds`` arrivals, so that the rate is as offered.

    Given their number, the arrivals of a Poisson process are independent and uniform over the time.
    """
    count = round(rate_per_s * seconds)
    return np.sort(np.random.default_rng(seed).uniform(0.0, seconds, count))


def fixed(rate_per_s: float, seconds: float) -> Seconds:
    """Return due times at equal distances."""
    return np.arange(round(rate_per_s * seconds), dtype=np.float64) / rate_per_s


class Pacer:
    """Call ``issue(index)`` for every arrival that is due; False from it means not now, and it is asked again."""

    def __init__(self, due_s: Seconds | Sequence[float], issue: Callable[[int], bool]) -> None:
        # A list: reading a float of numpy costs ten times as much.
        self._due: list[float] = [float(at) for at in due_s]
        self._issue = issue
        self._next = 0
        self._begin = 0.0

    @property
    def issued(self) -> int:
        """How many arrivals the target has taken."""
        return self._next

    async def run(self, begin: float, until: float) -> None:
        """Issue all arrivals, the first one due ``begin`` on the clock of ``time.perf_counter``; give up at ``until``.

        Returns when all were taken or ``until`` has passed: a target that takes nothing does not hold us for ever.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._begin = begin
        with Alarm(loop) as alarm:
            alarm.on_ring = lambda: self._tick(done, until)
            alarm.set(begin)
            await done

    def _tick(self, done: asyncio.Future[None], until: float) -> float | None:
        """Issue what is due; returns when to look again, None at the end."""
        if done.done():
            return None
        due, issue, at, count = self._due, self._issue, self._next, len(self._due)
        now = time.perf_counter()
        elapsed = now - self._begin
        try:
            while at < count and due[at] <= elapsed and issue(at):
                at += 1
        except BaseException as error:
            done.set_exception(error)
            return None
        finally:
            self._next = at
        if at == count or now > until:
            done.set_result(None)
            return None
        return max(self._begin + due[at], now + TICK_S)
