"""Open-loop arrivals: a stall of the target or of the generator is in the responses (bug kind B49)."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
import uvloop

from ninelives_bench.distribution import distribution
from ninelives_bench.pacer import Pacer, Seconds, fixed, poisson

RATE_PER_S = 1_000
SECONDS = 0.5


class Target:
    """Answers at once, unless it is told to stand still."""

    def __init__(self, due_s: Seconds) -> None:
        self.due_s = due_s
        self.response_s = np.full(len(due_s), np.nan)
        self.begin = 0.0
        self.calls: list[int] = []

    def issue(self, index: int) -> bool:
        self.calls.append(index)
        self.response_s[index] = time.perf_counter() - self.begin - self.due_s[index]
        return True

    async def run(self, grace_s: float = 5.0) -> None:
        self.begin = time.perf_counter() + 0.01
        await Pacer(self.due_s, self.issue).run(self.begin, self.begin + SECONDS + grace_s)


def on_uvloop(work: object) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)  # type: ignore[arg-type]  # a coroutine of any result


def test_every_arrival_is_issued_once_in_order_and_never_early() -> None:
    target = Target(poisson(RATE_PER_S, SECONDS, seed=3))
    on_uvloop(target.run())
    assert target.calls == list(range(round(RATE_PER_S * SECONDS)))
    assert target.response_s.min() >= 0


def test_a_blocked_loop_shows_in_the_percentiles() -> None:
    """A third of the arrivals fall into the pause; what came due in it waited, on the average, half of it."""
    target = Target(fixed(RATE_PER_S, SECONDS))
    pause_s = 0.17

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.15, time.sleep, pause_s)
        await target.run()

    on_uvloop(run())
    found = distribution(target.response_s)
    assert found["n"] == round(RATE_PER_S * SECONDS)
    assert found["p99"] is not None and found["p99"] > 0.9 * pause_s
    waited = int(np.count_nonzero(target.response_s > pause_s / 2))
    assert waited >= 0.4 * pause_s * RATE_PER_S


def test_what_is_due_while_the_target_takes_nothing_waits_and_counts_from_its_due_time() -> None:
    due = fixed(RATE_PER_S, SECONDS)
    target = Target(due)
    taken_from = 0.3

    def issue(index: int) -> bool:
        if 0.1 < time.perf_counter() - target.begin < taken_from:
            return False
        return target.issue(index)

    async def run() -> None:
        target.begin = time.perf_counter() + 0.01
        await Pacer(due, issue).run(target.begin, target.begin + 5.0)

    on_uvloop(run())
    assert target.calls == list(range(len(due)))
    assert target.response_s[101] > 0.9 * (taken_from - 0.1)


def test_a_target_that_never_takes_anything_does_not_hold_the_run_for_ever() -> None:
    pacer = Pacer(fixed(RATE_PER_S, SECONDS), lambda index: False)
    began = time.perf_counter()

    async def run() -> None:
        await pacer.run(time.perf_counter(), time.perf_counter() + 0.2)

    on_uvloop(run())
    assert time.perf_counter() - began < 2.0
    assert pacer.issued == 0


def test_an_error_of_the_target_ends_the_run() -> None:
    def issue(index: int) -> bool:
        raise RuntimeError("no target")

    async def run() -> None:
        await Pacer(fixed(RATE_PER_S, SECONDS), issue).run(time.perf_counter(), time.perf_counter() + 1)

    with pytest.raises(RuntimeError, match="no target"):
        on_uvloop(run())


def test_the_plain_loop_serves_too() -> None:
    target = Target(fixed(200, 0.2))
    asyncio.run(target.run())
    assert len(target.calls) == 40


def test_poisson_arrivals_are_of_the_seed_and_hold_the_rate_exactly() -> None:
    first, again, other = (poisson(5_000, 2.0, seed) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    assert len(first) == 10_000
    assert (np.diff(first) >= 0).all() and first[0] >= 0 and first[-1] <= 2.0
    # Gaps of a Poisson process vary as much as they are long; those of a clock do not vary.
    gaps = np.diff(first)
    assert 0.95 < gaps.std() / gaps.mean() < 1.05
    assert np.diff(fixed(5_000, 2.0)).std() < 1e-9
