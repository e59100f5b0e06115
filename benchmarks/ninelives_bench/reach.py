"""What the benchmarks are to reach, as data, and what of it was reached. A miss is told; it changes no verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from rich.table import Table

from ninelives_bench.verdicts import HELD_SHARE, Record

Find = Callable[[Record], float | None]
DEEP, SHALLOW = 20_000, 20
B8_SAMPLES_MIN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure, its limit, and where it stands in the summary."""

    figure: str
    limit: float
    sense: str
    find: Find


def reach(summary: Record) -> list[dict[str, Any]]:
    """Return the part `reach` of the summary; what was not measured, or cannot be read, is null and not held."""
    return [_compare(goal, _found(goal, summary)) for goal in GOALS]


def _found(goal: Goal, summary: Record) -> float | None:
    try:
        found = goal.find(summary)
    except (KeyError, TypeError, IndexError, ValueError, ZeroDivisionError, AttributeError):
        return None
    return found if found is not None and isfinite(found) else None


def _compare(goal: Goal, reached: float | None) -> dict[str, Any]:
    most = goal.sense == "most"
    held = reached is not None and (reached <= goal.limit if most else reached >= goal.limit)
    return {"figure": goal.figure, "limit": goal.limit, "sense": goal.sense, "reached": reached, "held": held}


def reach_table(rows: Iterable[Mapping[str, Any]], *, quick: bool) -> Table:
    """Return the table that a run prints at its end."""
    title = "Reach (a quick run: short arms, for a first look)" if quick else "Reach"
    table = Table(title=title, title_justify="left")
    for column in ("figure", "limit", "reached", "held"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for row in rows:
        sign = "≥" if row["sense"] == "least" else "≤"
        reached = row["reached"]
        held = "not measured" if reached is None else "yes" if row["held"] else "no"
        table.add_row(row["figure"], f"{sign} {row['limit']:,g}", "" if reached is None else _plain(reached), held)
    return table


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def _path(*path: str) -> Find:
    def find(summary: Record) -> float | None:
        value: Any = summary
        for name in path:
            value = value[name]
        return float(value)

    return find


def _commit_arm(name: str) -> Find:
    """The response p99 of an arm that held its rate."""

    def find(summary: Record) -> float | None:
        for arm in summary["b7"]["arms"]:
            if arm["name"] == name and arm["achieved_per_s"] >= HELD_SHARE * arm["offered_per_s"]:
                return float(arm["response_ms"]["p99"])
        return None

    return find


def _b7_passes(summary: Record) -> float:
    """1 where the B7 verdict is a PASS, else 0."""
    return float(summary["verdicts"]["b7"]["verdict"] == "PASS")


def _rehydration(load_per_s: int, depth: int | None = None) -> Find:
    """The worst p99 over the warm arms of one load, of at least a thousand instances each."""

    def find(summary: Record) -> float | None:
        arms = [
            arm
            for arm in summary["b8"]["arms"]
            if arm["cache"] == "warm" and arm["load_per_s"] == load_per_s and depth in (None, arm["depth"])
        ]
        if any(arm["ms"]["n"] < B8_SAMPLES_MIN for arm in arms):
            return None
        if any(arm["achieved_load_per_s"] < HELD_SHARE * load_per_s for arm in arms):
            return None
        return max((float(arm["ms"]["p99"]) for arm in arms), default=None)

    return find


def _depth_ratio(summary: Record) -> float | None:
    deep, shallow = _rehydration(0, DEEP)(summary), _rehydration(0, SHALLOW)(summary)
    return deep / shallow if deep and shallow else None


def _claim_ratio(summary: Record) -> float | None:
    """The worse of a claim that finds nothing and one that finds an instance."""
    arms = {arm["parked"]: arm for arm in summary["claims"]["arms"]}
    many, few = arms[1_000_000], arms[10]
    return max(float(many[kind]["p99"]) / float(few[kind]["p99"]) for kind in ("empty_ms", "due_ms"))


GOALS: Final = (
    Goal("saturation of the committer over 10 s, commits/s", 50_000, "least", _path("b7", "saturation_per_s")),
    Goal("saturation of the committer over 60 s, commits/s", 40_000, "least", _path("b7", "saturation_60_per_s")),
    Goal("saturation over pgbench with one transaction for each commit", 6, "least", _path("b7", "pgbench_ratio")),
    Goal("response p99 at 5 000 commits/s, ms", 4, "most", _commit_arm("poisson-5000")),
    Goal("response p99 at 5 000 commits/s across checkpoints, ms", 8, "most", _commit_arm("checkpoints-5000")),
    Goal("response p99 at 10 000 commits/s, ms", 6, "most", _commit_arm("poisson-10000")),
    Goal("response p99 at 10 000 commits/s across checkpoints, ms", 12, "most", _commit_arm("checkpoints-10000")),
    Goal("B7 verdict, 1 for PASS (response p99 <= 15 ms at 5 000 commits/s/node)", 1, "least", _b7_passes),
    Goal("three-step flows end to end, steps/s", 30_000, "least", _path("engine", "steps_per_s")),
    Goal("three-step flows over that pgbench", 4, "least", _path("engine", "pgbench_ratio")),
    Goal("three-step flows over 180 s, steps/s", 25_000, "least", _path("engine", "steps_per_s_180")),
    Goal("three-step flow at 50 flows/s, p50, ms", 3, "most", _path("engine", "latency_50_ms", "p50")),
    Goal("three-step flow at 50 flows/s, p99, ms", 6, "most", _path("engine", "latency_50_ms", "p99")),
    Goal("killed node, all instances finished, worst, ms", 200, "most", _path("takeover", "all_finished_ms", "max")),
    Goal("rehydration p99, idle, warm, worst depth, ms", 1, "most", _rehydration(0)),
    Goal("rehydration p99, depth 20 000 over depth 20", 1.5, "most", _depth_ratio),
    Goal("rehydration p99 under 10 000 commits/s, worst depth, ms", 3, "most", _rehydration(10_000)),
    Goal("claim p99, 1 000 000 parked over 10 parked", 1.5, "most", _claim_ratio),
)
