"""The plots of B8: rehydration over depth, and claims over what is parked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ninelives_reports.bench_axes import positive, scale_x, scale_y
from ninelives_reports.bench_figures import figure
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.bench_published import B8_LIMIT_MS, FLOWX_B8_DEPTH, FLOWX_B8_P99_MS
from ninelives_reports.bench_rehydration import is_idle
from ninelives_reports.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    VERMILION,
    Axes,
    Figure,
    Line2D,
    draw,
    tidy,
)
from ninelives_reports.load import Record, record
from ninelives_reports.text import UNKNOWN


@dataclass(frozen=True)
class Curve:
    """Distributions over a size, of one kind."""

    label: str
    colour: str
    mark: str
    points: Sequence[tuple[float, Record]]


def draw_depths(folder: BenchFolder) -> bytes | None:
    """Draw rehydration p50 and p99 over depth, idle warm and cold and under load; None without samples."""
    arms = folder.rows("b8", "arms")
    loads = {figure(arm.get("load_per_s")) for arm in arms if not is_idle(arm)}
    curves = [
        Curve("idle, warm", BLUE, "o", _points([arm for arm in arms if is_idle(arm) and arm.get("cache") == "warm"])),
        Curve("idle, cold", GREEN, "s", _points([arm for arm in arms if is_idle(arm) and arm.get("cache") == "cold"])),
        Curve(f"under {', '.join(sorted(loads)) or UNKNOWN} commits/s", VERMILION, "D",
              _points([arm for arm in arms if not is_idle(arm)])),
    ]  # fmt: skip
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return None

    def paint(figure_: Figure) -> None:
        axes = figure_.subplots()
        _paint(axes, curves, further=_beside(), extra_ms=(B8_LIMIT_MS, FLOWX_B8_P99_MS))
        axes.axhline(B8_LIMIT_MS, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.plot([FLOWX_B8_DEPTH], [FLOWX_B8_P99_MS], "*", color="white", markeredgecolor=INK, markersize=13, zorder=6)
        axes.set_xlabel("steps already committed (logarithmic)")
        axes.set_title("Rehydration over depth, one instance at a time", pad=48)
        figure_.subplots_adjust(left=0.085, right=0.98, bottom=0.13, top=0.81)

    return draw(9.0, 4.8, paint)


def _beside() -> list[Line2D]:
    """Return what the legend says of the marks that are no measurement of this run."""
    return [
        Line2D([], [], color=GREY, linewidth=1.2, linestyle=(0, (4, 3)), label=f"limit of B8: p99 {B8_LIMIT_MS:g} ms"),
        Line2D([], [], color="white", marker="*", markeredgecolor=INK, markersize=12, linewidth=0,
               label="FlowX, published p99"),
    ]  # fmt: skip


def draw_claims(folder: BenchFolder) -> bytes | None:
    """Draw the cost of a claim over the number of parked instances; None without samples."""
    arms = [{**arm, "depth": arm.get("parked")} for arm in folder.rows("claims", "arms")]
    curves = [
        Curve("nothing due", BLUE, "o", _points(arms, "empty_ms")),
        Curve("one instance due", VERMILION, "D", _points(arms, "due_ms")),
    ]
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return None

    def paint(figure_: Figure) -> None:
        axes = figure_.subplots()
        _paint(axes, curves)
        axes.set_xlabel("parked instances (logarithmic)")
        axes.set_title("A claim while instances are parked", pad=30)
        figure_.subplots_adjust(left=0.085, right=0.98, bottom=0.15, top=0.82)

    return draw(9.0, 4.0, paint)


def _points(arms: Sequence[Record], name: str = "ms") -> list[tuple[float, Record]]:
    found = [
        (float(arm["depth"]), record(arm.get(name)))
        for arm in arms
        if positive(arm.get("depth")) and all(positive(record(arm.get(name)).get(one)) for one in ("p50", "p99"))
    ]
    return sorted(found, key=lambda point: point[0])


def _paint(axes: Axes, curves: Sequence[Curve], further: Sequence[Line2D] = (), extra_ms: Sequence[float] = ()) -> None:
    tidy(axes)
    for curve in curves:
        sizes = [size for size, _ in curve.points]
        for name, style, filled in (("p99", "-", True), ("p50", (0, (5, 1.5)), False)):
            axes.plot(sizes, [point[name] for _, point in curve.points], color=curve.colour, linestyle=style,
                      marker=curve.mark, markersize=7, markerfacecolor=curve.colour if filled else "white",
                      linewidth=1.8, zorder=4)  # fmt: skip
    _fit(axes, curves, extra_ms)
    handles = [Line2D([], [], color=curve.colour, marker=curve.mark, linewidth=1.8, label=curve.label)
               for curve in curves]  # fmt: skip
    handles += [
        Line2D([], [], color=INK, linewidth=1.8, label="p99, filled"),
        Line2D([], [], color=INK, linewidth=1.8, linestyle=(0, (5, 1.5)), label="p50, hollow"),
        *further,
    ]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, frameon=False, fontsize=9)


def _fit(axes: Axes, curves: Sequence[Curve], extra_ms: Sequence[float]) -> None:
    sizes = [size for curve in curves for size, _ in curve.points]
    times_ms = [float(point[name]) for curve in curves for _, point in curve.points for name in ("p50", "p99")]
    scale_x(axes, sizes, room=1.7)
    scale_y(axes, min(times_ms) / 1.7, max([*times_ms, *extra_ms]) * 1.9)
    axes.set_ylabel("ms (logarithmic)")
