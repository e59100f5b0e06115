"""Exact nearest-rank percentiles, always with the number of samples they rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


def nearest_rank(ordered: Sequence[float], percent: int | float) -> float:
    """Return the smallest sample that at least ``percent`` % of ``ordered`` do not exceed.

    ``ordered`` must be sorted upwards. Raises ``ValueError`` without samples, or for a percentage outside 0
    to 100: a percentile of nothing is not a number, and must not become one.
    """
    if not ordered:
        raise ValueError("a percentile needs at least one sample; report the count 0 instead")
    if not 0 < percent <= 100:
        raise ValueError(f"percent must be above 0 and at most 100, not {percent!r}")
    rank = math.ceil(Fraction(str(percent)) * len(ordered) / 100)
    return ordered[rank - 1]


@dataclass(frozen=True)
class Summary:
    """A distribution in five figures; all but ``n`` are ``None`` exactly when there was no sample."""

    n: int
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the figures under the names that ``verdict.json`` uses."""
        return {"n": self.n, "p50": self.p50, "p95": self.p95, "p99": self.p99, "max": self.max}


def summarize(samples: Sequence[float]) -> Summary:
    """Summarize samples in any order; ``ValueError`` if one is NaN or infinite (it would compare as a
    pass).
    """
    if any(not math.isfinite(sample) for sample in samples):
        raise ValueError("a sample is not a finite number; look for the event that it was computed from")
    if not samples:
        return Summary(0, None, None, None, None)
    ordered = sorted(samples)
    p50, p95, p99 = (nearest_rank(ordered, percent) for percent in (50, 95, 99))
    return Summary(len(ordered), p50, p95, p99, ordered[-1])
