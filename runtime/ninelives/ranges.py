"""A set of positive integers kept as ranges: small for what is nearly contiguous, and quick to extend."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator


class Ranges:
    """A set of integers from 1 up; memory and the dumped form grow with the gaps, not with the members."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: Iterable[int] = ()) -> None:
        """Start from what `dump` returned: first and last of every range, flat and ascending.

        Raises ValueError for bounds that are not ascending, touch each other or are below 1.
        """
        self._bounds = list(bounds)
        if self._bounds:
            self._check()

    def _check(self) -> None:
        bounds = self._bounds
        if len(bounds) % 2 or any(type(bound) is not int for bound in bounds) or bounds[0] < 1:
            raise ValueError(f"ranges must be pairs of positive integers, got {bounds[:8]}")
        last = -1
        for position in range(0, len(bounds), 2):
            first = bounds[position]
            if first <= last + 1 or bounds[position + 1] < first:
                raise ValueError(f"ranges must ascend with gaps between them, got {bounds[:8]}")
            last = bounds[position + 1]

    def add(self, number: int) -> bool:
        """Put a number in; False when it was in already. Raises ValueError below 1."""
        bounds = self._bounds
        if bounds and bounds[-1] + 1 == number:  # the next one: what a sequence does all the time
            bounds[-1] = number
            return True
        if number < 1:
            raise ValueError(f"ranges hold integers from 1 up, got {number}")
        cut = bisect_left(bounds, number)
        if cut % 2 or (cut < len(bounds) and bounds[cut] == number):
            return False
        joins_left = cut > 0 and bounds[cut - 1] == number - 1
        joins_right = cut < len(bounds) and bounds[cut] == number + 1
        if joins_left and joins_right:
            del bounds[cut - 1 : cut + 1]
        elif joins_left:
            bounds[cut - 1] = number
        elif joins_right:
            bounds[cut] = number
        else:
            bounds[cut:cut] = (number, number)
        return True

    def discard(self, number: int) -> bool:
        """Take a number out; False when it was not in."""
        if number not in self:
            return False
        bounds = self._bounds
        cut = bisect_left(bounds, number)
        start = cut - 1 if cut % 2 else cut
        first, last = bounds[start], bounds[start + 1]
        left = (first, number - 1) if first < number else ()
        right = (number + 1, last) if number < last else ()
        bounds[start : start + 2] = (*left, *right)
        return True

    def __contains__(self, number: int) -> bool:
        bounds = self._bounds
        if len(bounds) == 2:
            return bounds[0] <= number <= bounds[1]
        cut = bisect_left(bounds, number)
        return bool(cut % 2) or (cut < len(bounds) and bounds[cut] == number)

    def __iter__(self) -> Iterator[int]:
        bounds = self._bounds
        for position in range(0, len(bounds), 2):
            yield from range(bounds[position], bounds[position + 1] + 1)

    def __len__(self) -> int:
        bounds = self._bounds
        return sum(bounds[1::2]) - sum(bounds[::2]) + len(bounds) // 2

    @property
    def leading(self) -> int:
        """How many of 1, 2, 3, ... are in before the first gap."""
        bounds = self._bounds
        return bounds[1] if bounds and bounds[0] == 1 else 0

    @property
    def last(self) -> int:
        """The greatest member, 0 when empty."""
        bounds = self._bounds
        return bounds[-1] if bounds else 0

    def dump(self) -> list[int]:
        """Return first and last of every range, flat and ascending; `Ranges(dump)` is an equal set."""
        return list(self._bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self._bounds == other._bounds

    __hash__ = None  # type: ignore[assignment]  # mutable, so it must not be a key

    def __repr__(self) -> str:
        bounds = self._bounds
        pairs = zip(bounds[::2], bounds[1::2], strict=True)
        return f"Ranges({', '.join(str(a) if a == b else f'{a}-{b}' for a, b in pairs)})"
