"""The plots of what commits cost by rate, and how far their throughput is from the references'."""

from __future__ import annotations

from collections.abc import Sequence

from ninelives_reports.bench_axes import plain, positive, scale_x, scale_y
from ninelives_reports.bench_commits import throughputs
from ninelives_reports.bench_figures import figure, number, rate_held, times
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.bench_published import B7_LIMIT_MS, FLOWX_ACHIEVED_PER_S, FLOWX_CORES
from ninelives_reports.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    SAND,
    SKY,
    VERMILION,
    Axes,
    Figure,
    Line2D,
    draw,
    tidy,
    withStroke,
)
from ninelives_reports.load import Record, record

_HALO = [withStroke(linewidth=3.0, foreground="white")]
_BESIDE = 1.075
"""Where fixed arrivals are drawn, as a factor of their rate, so that they do not cover the others."""
_NAMES = (("p50", BLUE, "o"), ("p99", VERMILION, "D"))


def draw_rates(folder: BenchFolder) -> bytes | None:
    """Draw response p50 and p99 over the offered rate with the knee; None without an open-loop arm."""
    arms = sorted(filter(_is_drawn, folder.rows("b7", "arms")), key=lambda arm: float(arm["offered_per_s"]))
    poisson = [arm for arm in arms if arm.get("arrivals") == "poisson"]
    fixed = [arm for arm in arms if arm.get("arrivals") == "fixed"]
    if not poisson and not fixed:
        return None
    knee = number(folder.part("b7").get("knee_per_s"))

    def paint(figure_: Figure) -> None:
        axes = figure_.subplots()
        tidy(axes)
        for name, colour, mark in _NAMES:
            _paint_rates(axes, poisson, name, colour, mark)
            axes.scatter([_BESIDE * arm["offered_per_s"] for arm in fixed], [arm["response_ms"][name] for arm in fixed],
                         marker="x", s=46, linewidths=1.8, color=colour, zorder=6)  # fmt: skip
        axes.axhline(B7_LIMIT_MS, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)))
        _fit(axes, [*poisson, *fixed])
        _mark(axes, knee)
        _legend(axes, bool(fixed), any(not rate_held(arm) for arm in poisson))
        figure_.subplots_adjust(left=0.085, right=0.98, bottom=0.13, top=0.80)

    return draw(9.0, 4.9, paint)


def _is_drawn(arm: Record) -> bool:
    """Tell whether this is an arm of the plain ladder that has something to show."""
    plainly = not arm.get("outbox") and not arm.get("checkpoints")
    response = record(arm.get("response_ms"))
    return (
        plainly
        and arm.get("nodes") == 1
        and arm.get("transport") == "socket"
        and positive(arm.get("offered_per_s")) is not None
        and all(positive(response.get(name)) is not None for name, *_ in _NAMES)
    )


def _paint_rates(axes: Axes, arms: Sequence[Record], name: str, colour: str, mark: str) -> None:
    rates, waits = [arm["offered_per_s"] for arm in arms], [arm["response_ms"][name] for arm in arms]
    axes.plot(rates, waits, color=colour, linewidth=1.9, zorder=3)
    for arm, rate, wait in zip(arms, rates, waits, strict=True):
        held = rate_held(arm)
        axes.plot([rate], [wait], mark, color=colour if held else "white", markeredgecolor=colour,
                  markeredgewidth=1.8, markersize=7.5, zorder=5)  # fmt: skip
        above = name == "p99"
        axes.annotate(figure(wait), (rate, wait), xytext=(-3, 8) if above else (-3, -8), textcoords="offset points",
                      ha="right", va="bottom" if above else "top", fontsize=9, color=colour, path_effects=_HALO,
                      zorder=7)  # fmt: skip


def _fit(axes: Axes, arms: Sequence[Record]) -> None:
    """Give the marks and their figures room, and name exactly the rates that were offered."""
    waits = [arm["response_ms"][name] for arm in arms for name in ("p50", "p99")]
    rates = [float(arm["offered_per_s"]) for arm in arms]
    scale_x(axes, rates, room=1.35)
    scale_y(axes, min(waits) / 2.2, max([*waits, B7_LIMIT_MS]) * 2.6)
    axes.set_xlabel("offered commits per second (logarithmic)")
    axes.set_ylabel("response, ms (logarithmic)")


def _mark(axes: Axes, knee: float | None) -> None:
    if knee is None:
        axes.set_title("Response over the offered rate, one node, unix socket; no knee was found", pad=54)
        return
    axes.axvline(knee, color=GREEN, linewidth=1.6, linestyle=(0, (1.5, 1.5)), zorder=2)
    axes.annotate(f"knee {figure(knee)}/s", (knee, axes.get_ylim()[0]), xytext=(-5, 6), textcoords="offset points",
                  ha="right", va="bottom", rotation=90, fontsize=9, color=GREEN, path_effects=_HALO)  # fmt: skip
    axes.set_title("Response over the offered rate, one node, unix socket", pad=54)


def _legend(axes: Axes, fixed: bool, missed: bool) -> None:
    handles = [Line2D([], [], color=colour, marker=mark, linewidth=1.9, markersize=7, label=f"{name}, Poisson arrivals")
               for name, colour, mark in _NAMES]  # fmt: skip
    handles.append(Line2D([], [], color=GREY, linewidth=1.2, linestyle=(0, (4, 3)),
                          label=f"limit of B7: p99 {B7_LIMIT_MS:g} ms at 5 000/s"))  # fmt: skip
    if fixed:
        handles.append(Line2D([], [], color=INK, marker="x", markersize=7, markeredgewidth=1.8, linewidth=0,
                              label="fixed arrivals, drawn beside their rate"))  # fmt: skip
    if missed:
        handles.append(Line2D([], [], color=INK, marker="o", markerfacecolor="white", markersize=7, linewidth=0,
                              label="hollow: rate not reached"))  # fmt: skip
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=3, frameon=False, fontsize=9)


def draw_throughput(folder: BenchFolder) -> bytes | None:
    """Draw the rates of committer and engine beside the references'; None when nothing was measured."""
    own = throughputs(folder)
    if all(value is None for _, value in own):
        return None
    pgbench = own[-1][1]
    bars = [*own, (f"FlowX, published, {FLOWX_CORES} cores: commits", FLOWX_ACHIEVED_PER_S)]
    colours = [SAND, BLUE, BLUE, SKY, SKY, SAND, "white"]

    def paint(figure_: Figure) -> None:
        axes = figure_.subplots()
        tidy(axes)
        axes.grid(False, axis="y")
        places = list(range(len(bars)))[::-1]
        for place, (label, value), colour in zip(places, bars, colours, strict=True):
            theirs = label.startswith("FlowX")
            axes.barh([place], [value or 0], height=0.66, color=colour, edgecolor=INK, linewidth=0.8,
                      hatch="////" if theirs else None)  # fmt: skip
            ratio = "" if theirs or not pgbench or value in (None, pgbench) else f"   {times((value or 0) / pgbench)}"
            axes.annotate(figure(value) + ratio if value is not None else "not measured", (value or 0, place),
                          xytext=(6, 0), textcoords="offset points", va="center", fontsize=9.5)  # fmt: skip
        axes.set_yticks(places, [label for label, _ in bars])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, max(value or 0 for _, value in bars) * 1.27)
        axes.xaxis.set_major_formatter(lambda value, _: plain(value))
        axes.set_xlabel("per second; × is the ratio to pgbench of the same run")
        figure_.text(0.012, 0.945, "Throughput beside the references of the same run", fontsize=11)
        figure_.subplots_adjust(left=0.335, right=0.965, bottom=0.15, top=0.91)

    return draw(9.5, 4.2, paint)
