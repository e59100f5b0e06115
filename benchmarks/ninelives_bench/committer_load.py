"""Step commits through the runtime's own lanes and store, each the next step of an instance that has none in flight."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from ninelives.client import Client
from ninelives.settings import Settings
from ninelives.store.rows import StepCommit, Verdict
from ninelives_bench.committer_population import TOKEN, Population
from ninelives_bench.pacer import Pacer, Seconds

Times = npt.NDArray[np.float64]

GRACE_S: Final = 2.0
"""How long answers are waited for behind the last arrival; what is missing then is unanswered."""


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Commits at given times, in seconds from the beginning of the phase."""

    due_s: Seconds
    seconds: float


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """So many commits in flight at any time: the saturation. Has no arrivals, and so no response times."""

    in_flight: int
    seconds: float


@dataclass(slots=True)
class Observed:
    """What one node saw in one phase; all times in seconds from the beginning of the phase."""

    seconds: float
    due_s: Times
    """Empty for a closed loop."""
    handed_s: Times
    """NaN: never handed to the runtime, because the phase ended before an instance was free."""
    answered_s: Times
    """NaN: not answered when the phase ended."""
    ended_s: float
    """How long the phase lasted with its grace."""
    verdicts: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    rows: int = 0
    cpu_s: float = 0.0

    @property
    def committed(self) -> int:
        """Commits that are in the journal."""
        return self.verdicts.get(Verdict.COMMITTED, 0)

    @property
    def refused(self) -> int:
        """Commits that were answered otherwise than committed."""
        return sum(self.verdicts.values()) - self.committed


class LanesClient(Client):
    """A client with as many lanes as a node has."""

    async def _open_lanes(self, count: int) -> None:
        await super()._open_lanes(self.settings.lanes)

    @property
    def batches(self) -> int:
        """Batches sent so far."""
        return sum(lane.batches for lane in self._lanes)

    @property
    def rows(self) -> int:
        """Rows sent so far."""
        return sum(lane.rows for lane in self._lanes)


class _Phase:
    """The book of one phase. Arrays of doubles: a list of a million floats would be searched by the collector."""

    __slots__ = ("answered", "begin", "finished", "handed", "left", "verdicts")

    def __init__(self, begin: float, size: int, finished: asyncio.Future[None]) -> None:
        nothing = array("d", [float("nan")])
        self.begin = begin
        self.handed = nothing * size
        self.answered = nothing * size
        self.left = size
        self.verdicts: Counter[str] = Counter()
        self.finished = finished


class CommitLoad:
    """Commits of one node to its part of a population, phase after phase."""

    def __init__(
        self, client: LanesClient, population: Population, *, depth_max: int, result_bytes: int, seed: int,
        grace_s: float = GRACE_S,
    ) -> None:  # fmt: skip
        self._client = client
        self._ids = population.ids
        self._steps = [0] * population.count
        self._depth_max = depth_max
        self._grace_s = grace_s
        # Drawn, not in order of the ids: neighbours in the index do not commit together.
        self._free = deque(np.random.default_rng(seed).permutation(population.count).tolist())
        self._result = b'"' + b"r" * max(0, result_bytes - 2) + b'"'
        self._loop = asyncio.get_running_loop()
        self._out = 0
        self.committed = 0
        """Over all phases."""

    async def open_loop(self, load: OpenLoop, begin: float | None = None) -> Observed:
        """Commit at the given times; `begin` is on the clock of ``time.perf_counter`` (default: now)."""
        start = time.perf_counter() if begin is None else begin
        phase = self._phase(start, len(load.due_s))
        until = start + load.seconds + self._grace_s
        before = self._used()

        def issue(index: int) -> bool:
            if not self._free:
                return False
            self._commit(phase, index, self._settled)
            return True

        if len(load.due_s):
            await Pacer(load.due_s, issue).run(start, until)
            await asyncio.wait([phase.finished], timeout=max(0.0, until - time.perf_counter()))
        return self._observe(phase, np.asarray(load.due_s), load.seconds, before)

    async def closed_loop(self, load: ClosedLoop, begin: float | None = None) -> Observed:
        """Keep commits in flight for the given time, then wait for those that are out."""
        start = time.perf_counter() if begin is None else begin
        await asyncio.sleep(max(0.0, start - time.perf_counter()))
        phase = self._phase(start, 0)
        until = start + load.seconds
        before = self._used()

        def issue() -> None:
            index = len(phase.handed)
            phase.handed.append(0.0)
            phase.answered.append(float("nan"))
            phase.left += 1
            self._commit(phase, index, settled)

        def settled(phase: _Phase, index: int, slot: int, answer: asyncio.Future[str]) -> None:
            self._settled(phase, index, slot, answer)
            if self._free and time.perf_counter() < until:
                issue()

        for _ in range(min(load.in_flight, len(self._free))):
            issue()
        # An answer may be the last one for a moment, and the next commit go out behind it.
        while phase.left and time.perf_counter() < until + self._grace_s:
            await asyncio.sleep(min(0.01, load.seconds / 10))
        return self._observe(phase, np.empty(0), load.seconds, before)

    async def settle(self, timeout_s: float) -> int:
        """Wait for what is still out, unmeasured; returns how many were not answered even then."""
        until = time.perf_counter() + timeout_s
        while self._out and time.perf_counter() < until:
            await asyncio.sleep(0.01)
        return self._out

    def _phase(self, begin: float, size: int) -> _Phase:
        return _Phase(begin, size, self._loop.create_future())

    def _commit(
        self, phase: _Phase, index: int, settled: Callable[[_Phase, int, int, asyncio.Future[str]], None]
    ) -> None:
        slot = self._free.popleft()
        answer: asyncio.Future[str] = self._loop.create_future()
        answer.add_done_callback(partial(settled, phase, index, slot))
        row = StepCommit(
            self._ids[slot], TOKEN, answer, b"", self._steps[slot], 1, b"bench.step", b"1", b"Success", self._result,
            None, 0,
        )  # fmt: skip
        self._out += 1
        phase.handed[index] = time.perf_counter()
        self._client.submit(row)

    def _settled(self, phase: _Phase, index: int, slot: int, answer: asyncio.Future[str]) -> None:
        phase.answered[index] = time.perf_counter()
        self._out -= 1
        verdict = answer.result()
        phase.verdicts[verdict] += 1
        if verdict == Verdict.COMMITTED:
            self.committed += 1
            self._steps[slot] += 1
            if self._steps[slot] < self._depth_max:
                self._free.append(slot)
        phase.left -= 1
        if not phase.left and not phase.finished.done():
            phase.finished.set_result(None)

    def _used(self) -> tuple[float, int, int]:
        return time.process_time(), self._client.batches, self._client.rows

    def _observe(self, phase: _Phase, due_s: Times, seconds: float, before: tuple[float, int, int]) -> Observed:
        """Close the book: what is answered later is no longer counted, because it is a copy."""
        after = self._used()
        return Observed(
            seconds, due_s, np.array(phase.handed) - phase.begin, np.array(phase.answered) - phase.begin,
            time.perf_counter() - phase.begin, {str(key): n for key, n in phase.verdicts.items()},
            after[1] - before[1], after[2] - before[2], after[0] - before[0],
        )  # fmt: skip


def open_client(dsn: str) -> LanesClient:
    """Return a client with a node's lanes; open it with ``async with``."""
    return LanesClient(dsn, settings=Settings())
