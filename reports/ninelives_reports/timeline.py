"""The plot of a run in time: process lives, kills and takeovers by lane, flows finished per second below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

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
    Patch,
    draw,
    tidy,
)
from ninelives_reports.load import ArmView
from ninelives_reports.story import FaultSpan, Life, Phase, lives, read_faults, read_phases, span
from ninelives_reports.text import counted, whole
from ninelives_rig.checkers.facts import TERMINAL
from ninelives_rig.checkers.recovery import NS_PER_S

_RATE_BINS_MAX = 90
_STICK_BINS_MAX = 170
_WIDTHS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
_LANE_PX = 1115
_LETTER_PX = 6.6
_ROLE_COLOURS = {"worker": SKY, "recovery": SAND}


@dataclass(frozen=True)
class Lane:
    """A place for a process and its successors; times in seconds since the arm began."""

    name: str
    role: str
    lives: tuple[tuple[float, float], ...]
    kills_s: tuple[float, ...]
    takeovers_s: tuple[float, ...]
    faults: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Timeline:
    """What happened in an arm; times in seconds since it began.

    ``finishes_s`` are the ends that a node told of; ``ended`` counts all instances that are terminal in the tables.
    ``faults`` are those of the server; one that is over at once has no length, here and in a lane.
    """

    name: str
    length_s: float
    lanes: tuple[Lane, ...]
    finishes_s: tuple[float, ...]
    ended: int
    phases: tuple[tuple[str, float, float], ...]
    faults: tuple[tuple[float, float], ...] = ()


def read_timeline(view: ArmView) -> Timeline | None:
    """Return what there is to draw of an arm; None without a readable history."""
    facts = view.facts
    if facts is None or facts.arm.history.empty:
        return None
    begin_t, last_t = span(facts)

    def since(t: float) -> float:
        return (t - begin_t) / NS_PER_S

    taken = facts.claims[facts.claims["takeover"].fillna(False).astype(bool)]
    faults = read_faults(facts)
    return Timeline(
        name=view.name,
        length_s=since(last_t),
        lanes=tuple(_lanes(lives(facts), taken, faults, begin_t)),
        finishes_s=tuple(since(int(t)) for t in facts.finishes["t"]),
        ended=sum(state in TERMINAL for state in facts.states.values()),
        phases=tuple((phase.name, since(phase.begin_t), since(phase.end_t)) for phase in _drawable(read_phases(view))),
        faults=tuple((since(fault.begin_t), since(fault.end_t)) for fault in faults if not fault.process),
    )


def _drawable(phases: Sequence[Phase]) -> list[Phase]:
    return [phase for phase in phases if phase.end_t > phase.begin_t]


def _slot(process: str) -> str:
    """Return the lane of a process: `worker-1` for its third life, `worker-1.3`."""
    return re.sub(r"\.\d+$", "", process)


def _order(slot: str) -> tuple[int, str, int]:
    """Sort workers before recovery nodes, each by number."""
    match = re.fullmatch(r"(.*?)(\d*)", slot)
    name, number = (match[1], match[2]) if match else (slot, "")
    return (0 if name.startswith("worker") else 1, name, int(number or 0))


def _lanes(every: Sequence[Life], taken: pd.DataFrame, faults: Sequence[FaultSpan], begin_t: int) -> list[Lane]:
    slots = sorted({_slot(life.process) for life in every}, key=_order)
    takeovers = taken.assign(slot=taken["process"].map(lambda name: _slot(str(name))))
    found = []
    for slot in slots:
        own = [life for life in every if _slot(life.process) == slot]
        found.append(
            Lane(
                name=slot,
                role=own[0].role,
                lives=tuple(((life.begin_t - begin_t) / NS_PER_S, (life.end_t - begin_t) / NS_PER_S) for life in own),
                kills_s=tuple((life.end_t - begin_t) / NS_PER_S for life in own if life.killed),
                takeovers_s=tuple(
                    (int(t) - begin_t) / NS_PER_S for t in takeovers[takeovers["slot"] == slot]["t"].tolist()
                ),
                faults=tuple(
                    ((fault.begin_t - begin_t) / NS_PER_S, (fault.end_t - begin_t) / NS_PER_S)
                    for fault in faults
                    if _slot(fault.process) == slot
                ),
            )
        )
    return found


def draw_timeline(timeline: Timeline) -> bytes:
    """Draw an arm's timeline."""
    lanes_in = 0.62 * max(len(timeline.lanes), 1)
    height_in = lanes_in + 4.1

    def paint(figure: Figure) -> None:
        upper, middle, lower = figure.subplots(
            3, 1, sharex=True, gridspec_kw={"height_ratios": [lanes_in, 1.05, 1.25], "hspace": 0.28}
        )
        stick = _paint_lanes(upper, timeline)
        width_s = _bin_width(timeline.length_s, _RATE_BINS_MAX)
        takeovers = [t for lane in timeline.lanes for t in lane.takeovers_s]
        _paint_rate(middle, takeovers, timeline.length_s, width_s, BLUE, "taken over / s")
        _paint_rate(lower, timeline.finishes_s, timeline.length_s, width_s, GREEN, "finished / s")
        lower.set_xlabel(f"seconds since the arm began; rates over bins of {width_s:g} s")
        for axes in (upper, middle, lower):
            _shade(axes, timeline.phases)
            _shade_faults(axes, timeline)
            axes.set_xlim(0, timeline.length_s)
        _name_phases(upper, timeline)
        _explain(figure, timeline, stick)
        figure.subplots_adjust(left=0.085, right=0.865, bottom=0.5 / height_in, top=1 - 0.84 / height_in)

    return draw(13.0, height_in, paint)


def _paint_lanes(axes: Axes, timeline: Timeline) -> str:
    """Paint the lanes; return what the tallest stick stands for."""
    width_s = _bin_width(timeline.length_s, _STICK_BINS_MAX)
    counts = [_binned(lane.takeovers_s, timeline.length_s, width_s) for lane in timeline.lanes]
    most = max((int(count.max()) for count in counts if len(count)), default=0)
    least_s = timeline.length_s / 1400
    for place, (lane, count) in enumerate(zip(timeline.lanes, counts, strict=True)):
        floor = len(timeline.lanes) - 1 - place
        colour = _ROLE_COLOURS.get(lane.role, GREY)
        bars = [(begin, max(end - begin, least_s)) for begin, end in lane.lives]
        axes.broken_barh(bars, (floor + 0.1, 0.22), facecolors=colour, edgecolor="white", linewidth=0.8)
        for begin, end in lane.faults:
            axes.broken_barh(
                [(begin, max(end - begin, least_s))],
                (floor + 0.1, 0.22),
                facecolors="none",
                edgecolor=INK,
                hatch="////",
                linewidth=0.8,
            )
        busy = np.flatnonzero(count)
        if most:
            axes.vlines(
                (busy + 0.5) * width_s, floor + 0.34, floor + 0.34 + 0.5 * count[busy] / most, color=BLUE, linewidth=1.8
            )
        axes.plot(
            lane.kills_s, [floor + 0.21] * len(lane.kills_s), linestyle="none", marker="X", markersize=6.5,
            color=VERMILION, markeredgecolor="white", markeredgewidth=0.6, zorder=5,
        )  # fmt: skip
        axes.annotate(
            f"{counted(len(lane.lives), 'life', 'lives')}, {len(lane.kills_s)} killed\n"
            f"{whole(len(lane.takeovers_s))} taken over", (1.0, floor + 0.45),
            xycoords=("axes fraction", "data"), xytext=(8, 0), textcoords="offset points", va="center", fontsize=9,
        )  # fmt: skip
    axes.set_ylim(0, max(len(timeline.lanes), 1))
    axes.set_yticks([len(timeline.lanes) - 1 - place + 0.4 for place in range(len(timeline.lanes))])
    axes.set_yticklabels([lane.name for lane in timeline.lanes])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    for floor in range(1, len(timeline.lanes)):
        axes.axhline(floor, color="#E3E3E3", linewidth=0.7)
    return f"flows taken over (tallest: {most} in {width_s:g} s)" if most else "flows taken over (none)"


def _paint_rate(axes: Axes, times_s: Sequence[float], length_s: float, width_s: float, colour: str, label: str) -> None:
    counts = _binned(times_s, length_s, width_s) / width_s
    edges = np.arange(len(counts) + 1) * width_s
    axes.stairs(counts, edges, fill=True, color=colour, alpha=0.85, linewidth=0)
    axes.set_ylabel(label)
    axes.set_ylim(0, max(float(counts.max(initial=0)), 1.0) * 1.1)
    axes.annotate(
        f"n = {whole(len(times_s))}", (1.0, 0.5), xycoords="axes fraction", xytext=(8, 0), textcoords="offset points",
        va="center", fontsize=9,
    )  # fmt: skip
    axes.margins(x=0)
    tidy(axes)


def _bin_width(length_s: float, bins_max: int) -> float:
    return next((width for width in _WIDTHS_S if length_s / width <= bins_max), length_s / bins_max)


def _binned(times_s: Sequence[float], length_s: float, width_s: float) -> np.ndarray:
    bins = max(int(np.ceil(length_s / width_s)), 1)
    places = np.minimum((np.array(times_s, dtype=float) / width_s).astype(np.int64), bins - 1)
    return np.bincount(places, minlength=bins)


def _shade(axes: Axes, phases: Sequence[tuple[str, float, float]]) -> None:
    for place, (_, begin, end) in enumerate(phases):
        if place % 2:
            axes.axvspan(begin, end, color="#F1F1F1", zorder=-5, linewidth=0)
        axes.axvline(begin, color="#C9C9C9", linewidth=0.8, zorder=-4)


def _shade_faults(axes: Axes, timeline: Timeline) -> None:
    """Shade the time in which the server was under a fault, which no lane can show."""
    least_s = timeline.length_s / 700
    for begin, end in timeline.faults:
        axes.axvspan(begin, max(end, begin + least_s), facecolor=VERMILION, alpha=0.16, zorder=-3, linewidth=0)


def _name_phases(axes: Axes, timeline: Timeline) -> None:
    """Write the names of the phases above the lanes; those too short for their name are in the report's text."""
    for name, begin, end in timeline.phases:
        if (end - begin) / timeline.length_s * _LANE_PX >= len(name) * _LETTER_PX:
            axes.annotate(
                name, ((begin + end) / 2, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 4),
                textcoords="offset points", ha="center", va="bottom", fontsize=9, color="#666666",
            )  # fmt: skip


def _explain(figure: Figure, timeline: Timeline, stick: str) -> None:
    roles = sorted({lane.role for lane in timeline.lanes}, reverse=True)
    handles: list[Patch | Line2D] = [
        Patch(facecolor=_ROLE_COLOURS.get(role, GREY), label=f"{role} alive") for role in roles
    ]
    handles.append(Line2D([], [], linestyle="none", marker="X", color=VERMILION, markersize=7, label="SIGKILL"))
    handles.append(Line2D([], [], color=BLUE, linewidth=1.8, label=stick))
    if any(lane.faults for lane in timeline.lanes):
        handles.append(Patch(facecolor="white", edgecolor=INK, hatch="////", label="under a fault"))
    if timeline.faults:
        handles.append(Patch(facecolor=VERMILION, alpha=0.16, label="server under a fault"))
    kills = sum(len(lane.kills_s) for lane in timeline.lanes)
    struck = len(timeline.faults) + sum(len(lane.faults) for lane in timeline.lanes)
    faults = f", {counted(struck, 'fault')}" if struck else ""
    figure.suptitle(
        f"{timeline.name}: {counted(kills, 'kill')}{faults}; {whole(timeline.ended)} flows ended, "
        f"{whole(len(timeline.finishes_s))} of them told by a node that lived to tell",
        x=0.085, ha="left", y=1 - 0.1 / figure.get_figheight(), va="top", fontsize=11,
    )  # fmt: skip
    figure.legend(
        handles=handles, loc="upper left", ncols=len(handles), frameon=False, fontsize=9,
        bbox_to_anchor=(0.078, 1 - 0.32 / figure.get_figheight()), borderaxespad=0.0,
    )  # fmt: skip


__all__ = ["Lane", "Timeline", "draw_timeline", "read_timeline"]
