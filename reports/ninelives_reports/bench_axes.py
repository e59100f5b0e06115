"""Logarithmic axes whose ticks are plain figures."""

from __future__ import annotations

from collections.abc import Sequence

from ninelives_reports.bench_figures import number
from ninelives_reports.canvas import Axes
from ninelives_reports.text import whole

_TICKS_MAX = 11


def plain(value: float) -> str:
    """Write a tick: thousands apart, no zeros behind the point."""
    return whole(round(value)) if value >= 1 and value == round(value) else f"{value:g}"


def scale_x(axes: Axes, sizes: Sequence[float], *, room: float) -> None:
    """Make the horizontal axis logarithmic, with a tick at each size that was measured and room at both ends."""
    axes.set_xscale("log")
    axes.set_xticks(sorted(set(sizes)))
    axes.set_xticks([], minor=True)
    axes.set_xlim(min(sizes) / room, max(sizes) * room)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))


def scale_y(axes: Axes, low: float, high: float) -> None:
    """Make the vertical axis logarithmic from `low` to `high`, with ticks at 1, 2 and 5 or at the decades alone."""
    axes.set_yscale("log")
    for factors in ((1, 2, 5), (1,)):
        marks = [factor * 10.0**decade for decade in range(-6, 9) for factor in factors]
        marks = [mark for mark in marks if low <= mark <= high]
        if len(marks) <= _TICKS_MAX:
            break
    axes.set_yticks(marks)
    axes.set_yticks([], minor=True)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter(lambda value, _: plain(value))


def positive(value: object) -> float | None:
    """Return a figure that a logarithmic axis can show."""
    known = number(value)
    return known if known is not None and known > 0 else None
