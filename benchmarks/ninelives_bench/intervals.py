"""Ratios of two runs with 95 % intervals: a bootstrap over blocks of time, the same for the same samples.

Neighbouring samples are alike (one batch, one checkpoint), so that blocks are drawn and not single samples. An interval
covers what varies within a run; two runs of one commit differ by more than that, which only a third run shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

REPLICATES: Final = 1_000
BLOCKS_MIN: Final = 8
_BLOCKS_SHORT = 20
_LONG_S, _SHORT_S = 120.0, 10.0
_RESOLUTION = 512
_BEYOND_MIN = 1
"""A percentile is estimated only where at least one sample lies beyond it."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run's replicates of a figure, with the figure itself and how many blocks they are of."""

    value: float
    replicates: Floats
    blocks: int


@dataclass(frozen=True, slots=True)
class Interval:
    """The ratio B to A with its 95 % interval."""

    ratio: float
    low: float
    high: float


def block_seconds(length_s: float) -> float:
    """Return how long a block is: 1 s, 10 s in a long arm, a twentieth of a short one."""
    if length_s > _LONG_S:
        return 10.0
    return 1.0 if length_s >= _SHORT_S else length_s / _BLOCKS_SHORT


def blocks_by_time(at_s: Floats, length_s: float) -> Whole:
    """Return the number of each sample's block."""
    last = max(0, math.ceil(length_s / block_seconds(length_s)) - 1)
    numbers: Whole = np.clip(np.floor(at_s / block_seconds(length_s)), 0, last).astype(np.int64)
    return numbers


def blocks_by_order(count: int) -> Whole:
    """Return block numbers of samples that were taken one after the other, without a time."""
    numbers: Whole = np.arange(count, dtype=np.int64) * min(count, 50) // max(1, count)
    return numbers


def percentile_side(values: Floats, blocks: Whole, share: float, seed: int) -> Side | None:
    """Return the nearest-rank percentile of one run; None where samples or blocks are too few to tell."""
    present, numbers = np.unique(blocks, return_inverse=True)
    beyond = len(values) - math.ceil(share * len(values))
    if len(present) < BLOCKS_MIN or beyond < _BEYOND_MIN:
        return None
    grid = _grid(np.sort(values), share)
    places = np.searchsorted(grid, values, side="left")
    size = len(present) * len(grid)
    counts = np.bincount(numbers * len(grid) + places, minlength=size).reshape(len(present), len(grid))
    drawn = _draws(len(present), seed) @ counts
    reached = np.cumsum(drawn, axis=1)
    ranks = np.ceil(share * reached[:, -1])
    found = grid[np.argmax(reached >= ranks[:, None], axis=1)]
    exact = float(np.sort(values)[math.ceil(share * len(values)) - 1])
    return Side(exact, found, len(present))


def rate_side(at_s: Floats, length_s: float, seed: int) -> Side | None:
    """Return how many events a second there were within `length_s`; None where that is too short to tell."""
    width = block_seconds(length_s)
    inside = at_s[(at_s >= 0) & (at_s <= length_s)]
    blocks = math.ceil(length_s / width)
    if blocks < BLOCKS_MIN or not len(inside):
        return None
    counts = np.bincount(blocks_by_time(inside, length_s), minlength=blocks)
    return Side(len(inside) / length_s, (_draws(blocks, seed) @ counts) / length_s, blocks)


def median_side(values: Floats, seed: int) -> Side | None:
    """Return the median of figures of which each is a block of its own, such as windows or repeats."""
    return percentile_side(values, np.arange(len(values), dtype=np.int64), 0.5, seed)


def compare_sides(a: Side | None, b: Side | None) -> Interval | None:
    """Return B to A; None where one is unknown or zero."""
    if a is None or b is None or a.value <= 0 or b.value <= 0:
        return None
    if not (np.all(a.replicates > 0) and np.all(b.replicates > 0)):
        return None
    ratio = b.value / a.value
    strays = np.sort(np.log(b.replicates / a.replicates))
    low, high = strays[round(0.025 * len(strays))], strays[round(0.975 * len(strays)) - 1]
    middle, wider = math.log(ratio), _widening(min(a.blocks, b.blocks))
    return Interval(
        ratio,
        math.exp(middle + wider * min(0.0, float(low) - middle)),
        math.exp(middle + wider * max(0.0, float(high) - middle)),
    )


def _grid(ordered: Floats, share: float) -> Floats:
    """Return the values that replicates are rounded up to: all of few, of many the finer the nearer to `share`."""
    last = len(ordered) - 1
    if len(ordered) <= 2 * _RESOLUTION:
        return np.unique(ordered)
    near = min(0.05, 1 - share)
    coarse = np.linspace(0, last, _RESOLUTION)
    fine = np.linspace((share - near) * last, min(1.0, share + near) * last, _RESOLUTION)
    return np.unique(ordered[np.unique(np.concatenate([coarse, fine]).astype(np.int64))])


def _draws(blocks: int, seed: int) -> Floats:
    """Return how often each block is drawn in each replicate."""
    random = np.random.default_rng(seed)
    drawn: Floats = random.multinomial(blocks, np.full(blocks, 1 / blocks), REPLICATES).astype(np.float64)
    return drawn


def _widening(blocks: int) -> float:
    """Return by how much a bootstrap over few blocks is too narrow: Student's t for the normal, n for n - 1."""
    return (1.96 + 2.4 / (blocks - 1)) / 1.96 * math.sqrt(blocks / (blocks - 1))
