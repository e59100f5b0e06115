"""Ranges and progress behave like the sets they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives.progress import Progress
from ninelives.ranges import Ranges

numbers = st.integers(1, 30)
scopes = st.sampled_from(["", "7/1", "7/2", "7/3", "7#1", "7#2", "7/2/9#1", "7/2/9#2"])


@given(st.lists(st.tuples(st.booleans(), numbers)))
def test_ranges_are_a_set(operations: list[tuple[bool, int]]) -> None:
    ranges, model = Ranges(), set[int]()
    for adds, number in operations:
        if adds:
            assert ranges.add(number) == (number not in model)
            model.add(number)
        else:
            assert ranges.discard(number) == (number in model)
            model.discard(number)
        assert list(ranges) == sorted(model)
        assert len(ranges) == len(model)
        assert all((number in ranges) == (number in model) for number in range(32))
        assert ranges.last == max(model, default=0)
        assert ranges.leading == next(count for count in range(32) if count + 1 not in model)
        assert Ranges(ranges.dump()) == ranges
        # As compact as it can be: one pair for each run of numbers.
        assert len(ranges.dump()) == 2 * sum(number - 1 not in model for number in model)


@given(st.lists(st.integers(-3, 8), max_size=6))
def test_ranges_take_only_what_a_dump_can_be(bounds: list[int]) -> None:
    try:
        ranges = Ranges(bounds)
    except ValueError:
        return
    rebuilt = Ranges()
    for number in ranges:
        assert rebuilt.add(number)
    assert rebuilt.dump() == bounds


def test_ranges_refuse_what_is_below_one() -> None:
    for number in (0, -1):
        with pytest.raises(ValueError, match="from 1 up"):
            Ranges().add(number)
    assert repr(Ranges([1, 1, 3, 5])) == "Ranges(1, 3-5)"


@given(st.lists(st.tuples(scopes, st.integers(1, 12)), max_size=60))
def test_progress_is_a_set_of_scope_and_step(keys: list[tuple[str, int]]) -> None:
    progress, model = Progress(), set[tuple[str, int]]()
    for key in keys:
        assert progress.add(*key) == (key not in model)
        model.add(key)
    loaded = Progress.load(progress.dump())
    for scope in ["", "7/1", "7/2", "7/3", "7/4", "7#1", "7#2", "7/2/9#1", "7/2/9#2", "8/1"]:
        for step_id in range(1, 14):
            assert ((scope, step_id) in progress) == ((scope, step_id) in model)
            assert ((scope, step_id) in loaded) == ((scope, step_id) in model)
    assert loaded.dump() == progress.dump()
