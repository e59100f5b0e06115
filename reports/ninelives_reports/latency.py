"""The plot of how long abandoned flows waited: one panel an arm, next effect beside end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ninelives_reports.canvas import BLUE, GREY, INK, VERMILION, Axes, Figure, draw, tidy, withStroke
from ninelives_reports.load import ArmView
from ninelives_reports.text import seconds, whole
from ninelives_rig.percentile import nearest_rank

_FLOOR_S = 1e-4
_COLUMNS = 2
_LABEL_SHARE = 0.19


@dataclass(frozen=True)
class Waits:
    """An arm's samples in seconds, sorted upwards, and its lease TTL."""

    name: str
    next_effect_s: tuple[float, ...]
    resume_s: tuple[float, ...]
    ttl_s: float | None


def read_waits(view: ArmView) -> Waits | None:
    """Return the arm's samples; None where the evidence does not give any."""
    if view.recovery is None:
        return None
    ends, effects = sorted(view.recovery.resume_s), sorted(view.recovery.next_effect_s)
    ttl_s = view.declared.get("ttl_s")
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or ttl_s <= 0:
        ttl_s = None
    return Waits(view.name, tuple(effects), tuple(ends), ttl_s) if ends or effects else None


def draw_latency(waits: Sequence[Waits]) -> bytes:
    """Draw the empirical distributions of these arms over one logarithmic axis; at least one arm."""
    columns = min(_COLUMNS, len(waits))
    lines = math.ceil(len(waits) / columns)
    height_in = 0.95 + 3.15 * lines
    low, high = _limits(waits)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
        panels = [axes for line in grid for axes in line]
        for place, axes in enumerate(panels):
            if place >= len(waits):
                axes.set_visible(False)
                continue
            _paint_panel(axes, waits[place])
            axes.set_xlim(low, high)
            axes.set_ylim(0, 1.13)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
            axes.tick_params(labelbottom=True)
            if place % columns == 0:
                axes.set_ylabel("share of abandoned flows")
            if place >= len(waits) - columns:
                axes.set_xlabel("seconds after the kill (logarithmic)")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="upper right", ncols=3, frameon=False, bbox_to_anchor=(0.985, 1.0))
        figure.subplots_adjust(
            left=0.075, right=0.985, bottom=0.55 / height_in, top=1 - 0.62 / height_in, hspace=0.36, wspace=0.08
        )

    return draw(11.5 if columns > 1 else 8.5, height_in, paint)


def _limits(waits: Sequence[Waits]) -> tuple[float, float]:
    """Return the ends of the axis: beyond every sample and TTL, and with room for the labels beside the marks."""
    samples = [max(value, _FLOOR_S) for one in waits for value in (*one.next_effect_s, *one.resume_s)]
    ttls = [one.ttl_s for one in waits if one.ttl_s is not None]
    low, high = math.log(min(samples) / 1.6), math.log(max([*samples, *ttls]) * 1.9)
    left = [math.log(max(nearest_rank(one.next_effect_s, 50), _FLOOR_S)) for one in waits if one.next_effect_s]
    right = [math.log(max(nearest_rank(one.resume_s, 99), _FLOOR_S)) for one in waits if one.resume_s]
    for _ in range(8):
        room = _LABEL_SHARE * (high - low)
        low, high = min([low, *(mark - room for mark in left)]), max([high, *(mark + room for mark in right)])
    return math.exp(low), math.exp(high)


def _paint_panel(axes: Axes, one: Waits) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    tidy(axes)
    axes.set_title(f"{one.name}  (n = {whole(len(one.next_effect_s))} next effects, {whole(len(one.resume_s))} ends)")
    if one.ttl_s is not None:
        axes.axvline(one.ttl_s, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)), label="lease TTL")
        axes.annotate(
            f"TTL {one.ttl_s:g} s", (one.ttl_s, 0.2), xytext=(-4, 0), textcoords="offset points",
            rotation=90, ha="right", va="center", color=GREY, fontsize=9,
            path_effects=[withStroke(linewidth=3.0, foreground="white")],
        )  # fmt: skip
    _paint_curve(axes, one.next_effect_s, "next effect by another process", BLUE, (0, (5, 1.5)), side="left")
    _paint_curve(axes, one.resume_s, "flow at its end", VERMILION, "solid", side="right")


def _paint_curve(
    axes: Axes,
    samples: Sequence[float],
    label: str,
    colour: str,
    style: str | tuple[float, tuple[float, ...]],
    side: str,
) -> None:
    if not samples:
        axes.plot([], [], color=colour, linestyle=style, label=label)
        return
    values = np.maximum(np.array(samples), _FLOOR_S)
    shares = np.arange(1, len(values) + 1) / len(values)
    axes.step(
        np.concatenate([values[:1], values]), np.concatenate([[0.0], shares]),
        where="post", color=colour, linestyle=style, linewidth=1.9, label=label,
    )  # fmt: skip
    for percent, mark, lift in ((50, "o", 0), (99, "D", 11)):
        value = nearest_rank(samples, percent)
        axes.plot(
            [max(value, _FLOOR_S)], [percent / 100], mark, color=colour, markeredgecolor=INK, markersize=6, zorder=5
        )
        axes.annotate(
            f"p{percent} {seconds(value)}", (max(value, _FLOOR_S), percent / 100),
            xytext=(-8 if side == "left" else 8, lift), textcoords="offset points",
            ha="right" if side == "left" else "left", va="center", fontsize=9, color=colour, zorder=6,
            path_effects=[withStroke(linewidth=3.0, foreground="white")],
        )  # fmt: skip
