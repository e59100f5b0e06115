"""The plot of a long run: latency window by window, with checkpoints and autovacuum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ninelives_reports.bench_axes import positive, scale_y
from ninelives_reports.bench_figures import figure, number
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.canvas import BLUE, GREEN, GREY, SAND, VERMILION, Axes, Figure, Line2D, Patch, draw, tidy
from ninelives_reports.load import Record

_SOLID: tuple[float, tuple[float, ...]] = (0.0, ())
_CURVES: tuple[tuple[str, str, tuple[float, tuple[float, ...]], float], ...] = (
    ("max", GREY, _SOLID, 1.0),
    ("p99", VERMILION, _SOLID, 1.9),
    ("p50", BLUE, (0, (5, 1.5)), 1.9),
)


def draw_windows(folder: BenchFolder) -> bytes | None:
    """Draw p50, p99 and max of each window; None without a window that has samples."""
    windows = [one for one in folder.rows("sustained", "windows") if number(one.get("at_s")) is not None
               and all(positive(one.get(name)) for name, *_ in _CURVES)]  # fmt: skip
    if not windows:
        return None
    sustained = folder.part("sustained")
    width_s = _width(windows, number(sustained.get("seconds")))
    offered = figure(sustained.get("offered_per_s"))

    def paint(figure_: Figure) -> None:
        axes = figure_.subplots()
        tidy(axes)
        _shade(axes, windows, width_s)
        middles = [one["at_s"] + width_s / 2 for one in windows]
        for name, colour, style, line_width in _CURVES:
            axes.plot(middles, [one[name] for one in windows], color=colour, linestyle=style, linewidth=line_width,
                      marker="." if len(windows) < 90 else None, markersize=4)  # fmt: skip
        low, high = min(one["p50"] for one in windows), max(one["max"] for one in windows)
        scale_y(axes, low / 2.4, high * 1.6)
        axes.set_xlim(windows[0]["at_s"], windows[-1]["at_s"] + width_s)
        cleaned = [at for at, one in zip(middles, windows, strict=True) if one.get("autovacuum")]
        axes.scatter(cleaned, [low / 1.85] * len(cleaned), marker="^", s=42, color=GREEN, zorder=6)
        axes.set_xlabel("seconds since the beginning")
        axes.set_ylabel("response, ms (logarithmic)")
        axes.set_title(f"Response in windows of {width_s:g} s at {offered} commits/s", pad=30)
        axes.legend(handles=_handles(), loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=5, frameon=False,
                    fontsize=9)  # fmt: skip
        figure_.subplots_adjust(left=0.07, right=0.985, bottom=0.13, top=0.85)

    return draw(10.5, 4.4, paint)


def _width(windows: Sequence[Record], seconds: float | None) -> float:
    """Return how long a window is, from the distance between two or from the whole."""
    steps = [later["at_s"] - one["at_s"] for one, later in pairwise(windows)]
    return float(min((step for step in steps if step > 0), default=seconds or 1.0))


def _shade(axes: Axes, windows: Sequence[Record], width_s: float) -> None:
    for one in windows:
        if one.get("checkpoint"):
            axes.axvspan(one["at_s"], one["at_s"] + width_s, color=SAND, alpha=0.55, linewidth=0, zorder=0)


def _handles() -> list[Line2D | Patch]:
    lines = [Line2D([], [], color=colour, linestyle=style, linewidth=width, label=name)
             for name, colour, style, width in _CURVES]  # fmt: skip
    return [
        *lines,
        Patch(facecolor=SAND, alpha=0.55, label="a checkpoint was under way"),
        Line2D([], [], color=GREEN, marker="^", linewidth=0, markersize=7, label="autovacuum worked"),
    ]
