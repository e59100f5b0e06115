"""Two result folders side by side: each figure that both have, its ratio with an interval, and a word for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import typer

from ninelives_bench.comparable import arms_of, reasons_against
from ninelives_bench.intervals import (
    Floats,
    Interval,
    Side,
    blocks_by_order,
    blocks_by_time,
    compare_sides,
    median_side,
    percentile_side,
    rate_side,
)
from ninelives_reports.bench_figures import figure, number
from ninelives_reports.bench_folder import BenchFolder, FolderUnreadable, load_folder
from ninelives_reports.load import record

COMPARABLE: Final = 0
REFUSED: Final = 3
_SHARES = {"p50": 0.5, "p99": 0.99}
_MOMENTS = ("due_s", "start_s", "started_s", "at_s")
_COSTS = ("client_us", "server_us", "wal_bytes")
_COLUMNS = ("figure", "A", "B", "B / A", "95 %", "B is")
_NOTE = (
    "An interval covers what varies within a run. Two runs of one commit can differ by more: repeat both, in turn,",
    "before a small difference is believed. Without raw samples a ratio has no interval and no word.",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of both runs; `less` when a smaller one is the better."""

    name: str
    a: float
    b: float
    less: bool
    interval: Interval | None

    @property
    def ratio(self) -> float | None:
        """B to A."""
        return self.b / self.a if self.a else None

    @property
    def word(self) -> str:
        """What can be said of B."""
        if self.interval is None:
            return "no interval"
        if self.interval.low <= 1 <= self.interval.high:
            return "no difference shown"
        return "faster" if (self.interval.ratio < 1) is self.less else "slower"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What there is to say of two folders; without figures when it was refused."""

    reasons: Sequence[str]
    figures: Sequence[Figure]


def compare(a: Path, b: Path, force: bool = False) -> int:
    """Print the comparison of two result folders; returns 0, or 3 when they are not comparable.

    With `force` the figures of runs that are not comparable are shown too, marked as such; the code stays 3.
    """
    try:
        found = compare_folders(load_folder(a), load_folder(b), force=force)
    except FolderUnreadable as error:
        typer.echo(f"not comparable: {error}", err=True)
        return REFUSED
    for reason in found.reasons:
        typer.echo(f"not comparable: {reason}", err=True)
    if found.figures:
        typer.echo("\n".join(describe(found)))
    elif found.reasons:
        typer.echo("refused; --force shows the figures anyway", err=True)
    return REFUSED if found.reasons else COMPARABLE


def compare_folders(a: BenchFolder, b: BenchFolder, *, force: bool = False) -> Comparison:
    """Compare two runs; what is not comparable has reasons, and no figures unless they are forced."""
    reasons = reasons_against(a, b)
    return Comparison(reasons, [] if reasons and not force else list(_figures(a, b)))


def describe(found: Comparison) -> list[str]:
    """Write the figures as a table."""
    rows: list[Sequence[str]] = [_COLUMNS, *(_row(one) for one in found.figures)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    lines = ["FORCED: these runs are not comparable, the figures prove nothing.", ""] if found.reasons else []
    lines += [_aligned(row, widths) for row in rows]
    return [*lines, "", *_NOTE]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:-1], widths[1:-1], strict=True))]
    return "  ".join([*cells, row[-1]]).rstrip()


def _row(one: Figure) -> Sequence[str]:
    span = f"{one.interval.low:.3f} to {one.interval.high:.3f}" if one.interval else ""
    return one.name, figure(one.a), figure(one.b), "" if one.ratio is None else f"{one.ratio:.3f}", span, one.word


def _figures(a: BenchFolder, b: BenchFolder) -> Iterator[Figure]:
    yield from _references(a, b)
    yield from _commits(a, b)
    yield from _engine(a, b)
    yield from _waits(a, b)
    yield from _sustained(a, b)


def _references(a: BenchFolder, b: BenchFolder) -> Iterator[Figure]:
    for name, label in (("pgbench", "reference pgbench, /s"), ("raw_statement", "reference raw statement, rows/s")):
        yield from _bare(label, a.part("reference", name), b.part("reference", name), "per_s", less=False)
    yield from _spreads("reference fdatasync", a, b, "reference", "fdatasync_ms", "fdatasync", "ms")


def _commits(a: BenchFolder, b: BenchFolder) -> Iterator[Figure]:
    ours, theirs = arms_of(a, "b7"), arms_of(b, "b7")
    for name in [name for name in ours if name in theirs]:
        sides = (ours[name], theirs[name])
        yield from _timed(f"b7 {name} response", a, b, sides, f"b7-{name}")
        for cost in _COSTS:
            yield from _bare(f"b7 {name} {cost}", *sides, cost, less=True)
    saturated = [{str(arm.get("name")): arm for arm in side.rows("b7", "saturations")} for side in (a, b)]
    for name in [name for name in saturated[0] if name in saturated[1]]:
        arms = (saturated[0][name], saturated[1][name])
        yield from _rated(f"b7 {name}, commits/s", a, b, arms, f"b7-{name}", "per_s")
        for cost in _COSTS:
            yield from _bare(f"b7 {name} {cost}", *arms, cost, less=True)


def _engine(a: BenchFolder, b: BenchFolder) -> Iterator[Figure]:
    ours, theirs = arms_of(a, "engine"), arms_of(b, "engine")
    for name in [name for name in ours if name in theirs]:
        sides = (ours[name], theirs[name])
        if number(sides[0].get("offered_flows_per_s")):
            yield from _timed(f"engine {name} response", a, b, sides, f"engine-{name}")
        else:
            yield from _rated(f"engine {name}, flows/s", a, b, sides, f"engine-{name}", "flows_per_s")
        for cost in _COSTS:
            yield from _bare(f"engine {name} {cost}", *sides, f"{cost}_per_step", less=True)


def _waits(a: BenchFolder, b: BenchFolder) -> Iterator[Figure]:
    for part, kinds in (("b8", ("ms",)), ("death", ("ms",)), ("claims", ("empty_ms", "due_ms"))):
        ours, theirs = arms_of(a, part), arms_of(b, part)
        for name in [name for name in ours if name in theirs]:
            for kind in kinds:
                label = f"{part} {name}" + ("" if kind == "ms" else f" {kind.removesuffix('_ms')}")
                yield from _untimed(label, a, b, (ours[name], theirs[name]), f"{part}_{name}", kind)
    for kind in ("seen_ms", "all_finished_ms"):
        label = f"takeover {kind.removesuffix('_ms')}"
        yield from _spreads(label, a, b, "takeover", kind, "takeover", kind)
    leases = a.part("renewal").get("leases")
    yield from _spreads(f"renewal of {leases}", a, b, "renewal", "ms", f"renewal_{leases}", "ms")


def _sustained(a: BenchFolder, b: BenchFolder) -> Iterator[Figure]:
    """Compare the median over windows, each window a block."""
    for percentile in _SHARES:
        sides = [_windows(side, percentile) for side in (a, b)]
        found = [median_side(values, seed) if len(values) else None for seed, values in enumerate(sides, 1)]
        label = f"sustained, median {percentile} of a window, ms"
        if found[0] is not None and found[1] is not None:
            yield Figure(label, found[0].value, found[1].value, True, compare_sides(*found))
        elif len(sides[0]) and len(sides[1]):
            yield Figure(label, float(np.median(sides[0])), float(np.median(sides[1])), True, None)


def _windows(folder: BenchFolder, percentile: str) -> Floats:
    values = [number(one.get(percentile)) for one in folder.rows("sustained", "windows")]
    return np.array([value for value in values if value is not None], dtype=np.float64)


Arms = tuple[Mapping[str, Any], Mapping[str, Any]]
Sided = Callable[[BenchFolder, Mapping[str, Any], int], Side | None]


def _pair(
    label: str, folders: tuple[BenchFolder, BenchFolder], arms: Arms, told: Sequence[object], side: Sided, *, less: bool
) -> Iterator[Figure]:
    """Compare by raw samples where both runs have them, else by what the summaries tell."""
    # One stream of draws for each run: the same draws in both would make the ratio look steadier than it is.
    found = [side(folder, arm, seed) for seed, (folder, arm) in enumerate(zip(folders, arms, strict=True), 1)]
    a, b = number(told[0]), number(told[1])
    if found[0] is not None and found[1] is not None:
        yield Figure(label, found[0].value, found[1].value, less, compare_sides(found[0], found[1]))
    elif a is not None and b is not None:
        yield Figure(label, a, b, less, None)


def _timed(label: str, a: BenchFolder, b: BenchFolder, arms: Arms, name: str) -> Iterator[Figure]:
    """Compare the response of an open-loop arm, in blocks of time."""
    for percentile, share in _SHARES.items():

        def side(folder: BenchFolder, arm: Mapping[str, Any], seed: int, share: float = share) -> Side | None:
            columns = folder.samples(name) or {}
            at_s, waits = _moments(columns), columns.get("response_ms")
            length_s = number(arm.get("seconds"))
            if at_s is None or waits is None or not length_s:
                return None
            known = np.isfinite(waits) & np.isfinite(at_s)
            return percentile_side(waits[known], blocks_by_time(at_s[known], length_s), share, seed)

        told = [record(arm.get("response_ms")).get(percentile) for arm in arms]
        yield from _pair(f"{label} {percentile}, ms", (a, b), arms, told, side, less=True)


def _rated(label: str, a: BenchFolder, b: BenchFolder, arms: Arms, name: str, told: str) -> Iterator[Figure]:
    """Compare the rate of a closed-loop arm, by when each one ended."""

    def side(folder: BenchFolder, arm: Mapping[str, Any], seed: int) -> Side | None:
        columns = folder.samples(name) or {}
        ended, length_s = _ends(columns), number(arm.get("seconds"))
        if ended is None or not length_s:
            return None
        # What was never answered has no end; it is told by how long it was waited for.
        answered = columns.get("answered", columns.get("done", np.ones(len(ended)))) > 0
        return rate_side(ended[np.isfinite(ended) & answered], length_s, seed)

    yield from _pair(label, (a, b), arms, [arm.get(told) for arm in arms], side, less=False)


def _untimed(label: str, a: BenchFolder, b: BenchFolder, arms: Arms, name: str, kind: str) -> Iterator[Figure]:
    """Compare samples that were taken one after the other, in blocks of neighbours."""
    for percentile, share in _SHARES.items():

        def side(folder: BenchFolder, arm: Mapping[str, Any], seed: int, share: float = share) -> Side | None:
            values = (folder.samples(name) or {}).get(kind)
            if values is None:
                return None
            known = values[np.isfinite(values)]
            return percentile_side(known, blocks_by_order(len(known)), share, seed)

        told = [record(arm.get(kind)).get(percentile) for arm in arms]
        yield from _pair(f"{label} {percentile}, ms", (a, b), arms, told, side, less=True)


def _spreads(
    label: str, a: BenchFolder, b: BenchFolder, part: str, kind: str, name: str, column: str
) -> Iterator[Figure]:
    """Compare a distribution that stands in a part itself, not in one of its arms."""
    arms = ({column: a.part(part).get(kind)}, {column: b.part(part).get(kind)})
    yield from _untimed(label, a, b, arms, name, column)


def _bare(label: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], key: str, *, less: bool) -> Iterator[Figure]:
    """Compare two figures that have no samples."""
    a, b = number(ours.get(key)), number(theirs.get(key))
    if a is not None and b is not None:
        yield Figure(label, a, b, less, None)


def _ends(columns: Mapping[str, Floats]) -> Floats | None:
    """Return when each one ended, since the beginning of the arm."""
    if "done_s" in columns:
        return columns["done_s"]
    at_s, took = _moments(columns), columns.get("service_ms", columns.get("response_ms"))
    return None if at_s is None or took is None else at_s + took / 1e3


def _moments(columns: Mapping[str, Floats]) -> Floats | None:
    return next((columns[name] for name in _MOMENTS if name in columns), None)
