"""Nearest-rank percentiles are exact and never invent a number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives_rig.percentile import Summary, nearest_rank, summarize


@pytest.mark.parametrize(
    ("n", "percent", "expected"),
    [(1, 50, 1), (1, 99, 1), (2, 50, 1), (3, 50, 2), (100, 99, 99), (101, 99, 100), (20, 95, 19), (1000, 99.9, 999)],
)
def test_rank_by_hand(n: int, percent: float, expected: int) -> None:
    assert nearest_rank([float(value) for value in range(1, n + 1)], percent) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_rank_is_the_smallest_that_covers(samples: list[float], percent: int) -> None:
    ordered = sorted(samples)
    value = nearest_rank(ordered, percent)
    assert sum(sample <= value for sample in samples) * 100 >= percent * len(samples)
    assert sum(sample < value for sample in samples) * 100 < percent * len(samples)


def test_nothing_has_no_percentile() -> None:
    assert summarize([]) == Summary(0, None, None, None, None)
    with pytest.raises(ValueError, match="at least one sample"):
        nearest_rank([], 99)
    for percent in (0, -1, 100.1):
        with pytest.raises(ValueError, match="percent"):
            nearest_rank([1.0], percent)


@pytest.mark.parametrize("sample", [math.nan, math.inf])
def test_no_number_is_refused(sample: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        summarize([1.0, sample])


def test_order_does_not_matter() -> None:
    assert summarize([3.0, 1.0, 2.0]).as_dict() == {"n": 3, "p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
