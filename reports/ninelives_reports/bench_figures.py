"""How the figures of a benchmark are written; what is unknown is a dash, never NaN or None."""

from __future__ import annotations

import math

from ninelives_reports.load import Record, record
from ninelives_reports.text import UNKNOWN, whole

NO_DATA = "no data"


def number(value: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def figure(value: object) -> str:
    """Write a figure with three digits that count, whole above a hundred."""
    known = number(value)
    if known is None:
        return UNKNOWN
    size = abs(known)
    if size >= 99.95 or known == int(known):
        return whole(round(known))
    return f"{known:.1f}" if size >= 9.995 else f"{known:.2f}" if size >= 0.0995 else f"{known:.3g}"


def milliseconds(value: object) -> str:
    """Write a time with its unit."""
    known = number(value)
    if known is None:
        return UNKNOWN
    digits = "0" if known >= 99.95 else "1" if known >= 9.995 else "2" if known >= 0.0995 else "3"
    return f"{known:,.{digits}f} ms".replace(",", " ")


def times(value: object) -> str:
    """Write a ratio."""
    known = number(value)
    return UNKNOWN if known is None else f"{known:.2f} ×" if known < 9.95 else f"{known:.1f} ×"


def quotient(above: object, below: object) -> float | None:
    """Divide two figures; None where one is unknown or the second is zero."""
    top, bottom = number(above), number(below)
    return None if top is None or not bottom else top / bottom


def count_of(distribution: object) -> int:
    """Return how many samples a distribution rests on."""
    n = record(distribution).get("n")
    return n if type(n) is int else 0


def percentiles(distribution: object, *names: str) -> list[str]:
    """Write these figures of a distribution of milliseconds, bare, as cells below a head that names the unit."""
    known = record(distribution)
    return [milliseconds(known.get(name)).removesuffix(" ms") for name in names]


def value_of(found: object, name: str = "p50") -> float | None:
    """Return a figure that is either a plain number or one of a distribution's."""
    return number(found.get(name)) if isinstance(found, dict) else number(found)


def mebibytes(value: object) -> str:
    """Write a size."""
    known = number(value)
    return UNKNOWN if known is None else f"{figure(known / 1024**2)} MiB"


def rate_held(arm: Record) -> bool:
    """Tell whether an arm reached 98 % of the rate that it was offered."""
    share = quotient(arm.get("achieved_per_s"), arm.get("offered_per_s"))
    return share is not None and share >= 0.98
