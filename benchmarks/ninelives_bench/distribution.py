"""Exact distributions of many samples: nearest-rank percentiles with their count."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

_PERCENTS = {"p50": 500, "p95": 950, "p99": 990, "p999": 999}


def distribution(samples: Samples) -> dict[str, float | int | None]:
    """Return n, p50, p95, p99, p999 and max of samples in any order; nulls without any.

    Raises ValueError for NaN or infinity: compared with a limit, they would pass.
    """
    if not np.isfinite(samples).all():
        raise ValueError("a sample is not a finite number; look for the event that it was computed from")
    n = len(samples)
    if not n:
        return {"n": 0, **dict.fromkeys([*_PERCENTS, "max"])}
    ordered = np.sort(samples)
    found: dict[str, float | int | None] = {"n": n}
    for name, permille in _PERCENTS.items():
        found[name] = float(ordered[-(-permille * n // 1000) - 1])
    found["max"] = float(ordered[-1])
    return found
