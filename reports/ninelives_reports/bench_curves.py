"""The plot of how long whole flows take: every percentile of the open-loop arms, from the raw samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ninelives_reports.bench_axes import scale_y
from ninelives_reports.bench_figures import count_of, figure, number
from ninelives_reports.bench_folder import BenchFolder, Samples
from ninelives_reports.canvas import BLUE, GREEN, INK, VERMILION, Axes, Figure, draw, tidy, withStroke
from ninelives_reports.load import record
from ninelives_reports.text import whole

_STYLES = ((BLUE, "-"), (VERMILION, (0, (5, 1.5))), (GREEN, (0, (1.5, 1.2))), (INK, "-."))
_SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99)
_HALO = [withStroke(linewidth=3.0, foreground="white")]


@dataclass(frozen=True)
class Flows:
    """The latencies of one arm, sorted upwards, with the share of each that is not slower."""

    label: str
    shares: Samples
    times_ms: Samples


def draw_flows(folder: BenchFolder) -> bytes | None:
    """Draw the latency of flows by percentile; None where no open-loop arm has samples."""
    found = read_flows(folder)
    if not found:
        return None

    def paint(figure_: Figure) -> None:
        axes = figure_.subplots()
        tidy(axes)
        for place, one in enumerate(found):
            colour, style = _STYLES[place % len(_STYLES)]
            axes.plot(_spaced(one.shares), one.times_ms, color=colour, linestyle=style, linewidth=1.9,
                      label=one.label, marker="o" if len(one.shares) < 8 else None)  # fmt: skip
        _paint_marks(axes, found)
        _fit(axes, found)
        axes.set_xlabel("percentile (each step to the right is ten times rarer)")
        axes.set_ylabel("start to finish, ms (logarithmic)")
        axes.set_title("Three-step flows from start to finish", pad=30)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, frameon=False, fontsize=9)
        figure_.subplots_adjust(left=0.085, right=0.965, bottom=0.13, top=0.85)

    return draw(9.0, 4.6, paint)


def read_flows(folder: BenchFolder) -> list[Flows]:
    """Return the open-loop arms; from the summary's few percentiles where raw samples are missing."""
    found = []
    for arm in folder.rows("engine", "arms"):
        rate = number(arm.get("offered_flows_per_s"))
        if not rate or not count_of(arm.get("response_ms")):
            continue
        columns = folder.samples(f"engine-{arm.get('name')}") or {}
        times_ms = columns.get("response_ms", np.empty(0))
        times_ms = np.sort(times_ms[np.isfinite(times_ms) & (times_ms > 0)])
        n = len(times_ms) or count_of(arm.get("response_ms"))
        label = f"{figure(rate)} flows/s (n = {whole(n)})"
        if len(times_ms):
            found.append(Flows(label, np.arange(1, n + 1) / (n + 1), times_ms))
        else:
            spread = record(arm.get("response_ms"))
            known = [(share, float(spread[name])) for name, share in _SHARES if number(spread.get(name))]
            found.append(Flows(f"{label}, percentiles only", np.array([share for share, _ in known]),
                               np.array([value for _, value in known])))  # fmt: skip
    return found


def _spaced(shares: Samples) -> Samples:
    """Space shares so that 90, 99 and 99.9 % are equally far apart."""
    spaced: Samples = -np.log10(1.0 - shares)
    return spaced


def _paint_marks(axes: Axes, found: Sequence[Flows]) -> None:
    """Write p50 and p99 of the arm with the lowest rate, which is the figure that flows are compared by."""
    one = found[0]
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        if not len(one.shares) or one.shares[-1] < share:
            continue
        at = int(np.searchsorted(one.shares, share))
        axes.plot(_spaced(one.shares[at : at + 1]), one.times_ms[at : at + 1], "o", color=BLUE, markeredgecolor=INK,
                  markersize=6.5, zorder=6)  # fmt: skip
        axes.annotate(f"{label} {figure(float(one.times_ms[at]))} ms",
                      (float(_spaced(one.shares[at : at + 1])[0]), float(one.times_ms[at])), xytext=(4, -10),
                      textcoords="offset points", va="top", fontsize=9, color=BLUE, path_effects=_HALO)  # fmt: skip


def _fit(axes: Axes, found: Sequence[Flows]) -> None:
    furthest = max(float(_spaced(one.shares)[-1]) for one in found if len(one.shares))
    ticks = [tick for tick in _TICKS if -np.log10(1 - tick / 100) <= furthest + 0.05]
    axes.set_xticks([float(-np.log10(1 - tick / 100)) for tick in ticks])
    axes.xaxis.set_major_formatter(lambda value, _: f"p{100 * (1 - 10**-value):.4g}")
    axes.set_xlim(0, furthest * 1.03)
    low = min(float(one.times_ms[0]) for one in found if len(one.times_ms))
    high = max(float(one.times_ms[-1]) for one in found if len(one.times_ms))
    scale_y(axes, low / 1.8, high * 1.5)
