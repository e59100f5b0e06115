"""Changes of one value of a bundle: every column of every table, leaf of every JSON file and field of an event."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ninelives_rig.checkers import CHECKERS
from ninelives_rig.checkers.facts import Facts
from ninelives_rig.evidence.bundle import load
from ninelives_rig.evidence.seal import seal
from ninelives_rig.evidence.spec import BundleUnreadable
from ninelives_rig.judge import bundle_findings
from ninelives_rig.verdict import Status

_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]")
_FAR = 10**6
_TIMES = ("t", "t_us", "duration_ms", "started_t", "ended_t")


@dataclass(frozen=True)
class Change:
    """One value changed: ``spot`` names the field, ``content`` is what the file then holds."""

    spot: str
    path: Path
    old: Any
    new: Any
    content: bytes

    def __str__(self) -> str:
        return f"{self.spot}: {self.old!r} -> {self.new!r}"


def changed_values(value: Any, field: str) -> list[Any]:
    """Return what a value is changed to: something of its own kind.

    A time is moved far: it is checked for the life of its process and the order of its file, not for a nanosecond.
    """
    if field in _TIMES:
        return [min(value * 1000 + _FAR, 1 << 62)]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value + 1.0]
    if isinstance(value, str):
        return [f"{value}x", "2016" + value[4:]] if _TIME.match(value) else [f"{value}x"]
    if isinstance(value, list | dict):
        return [["x"] if isinstance(value, list) else {"x": 1}] if not value else []
    return ["x", 7]


def changed_cells(cell: str, column: str) -> list[str]:
    """Return what a field of a CSV file is changed to."""
    if cell in ("t", "f"):
        return ["f" if cell == "t" else "t"]
    if re.fullmatch(r"-?\d+", cell):
        return [str(value) for value in changed_values(int(cell), column)]
    if cell.startswith("{"):
        return ["{}", ""]
    return [*(str(value) for value in changed_values(cell, column)), ""] if cell else ["7"]


def _leaves(value: Any, spot: str = "") -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Yield each leaf of a JSON value with a setter; the places of a list share their name."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        name = f"{spot}[]" if isinstance(value, list) else f"{spot}.{key}" if spot else str(key)

        def put(new: Any, key: Any = key) -> None:
            value[key] = new

        if isinstance(inner, dict | list) and inner:
            yield from _leaves(inner, name)
        else:
            yield name, inner, put


def _json_changes(path: Path, shown: str) -> Iterator[Change]:
    content = orjson.loads(path.read_bytes())
    seen = set()
    for spot, old, put in _leaves(content):
        if spot in seen:
            continue
        seen.add(spot)
        for new in changed_values(old, spot.rpartition(".")[2]):
            put(new)
            yield Change(f"{shown}:{spot}", path, old, new, orjson.dumps(content))
        put(old)


def _csv_changes(path: Path, shown: str) -> Iterator[Change]:
    with path.open(newline="") as file:
        head, *rows = list(csv.reader(file))

    def written() -> bytes:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([head, *rows])
        return text.getvalue().encode()

    for place, column in enumerate(head):
        filled = [row for row in rows if row[place]]
        for row in [*filled[:1], *[row for row in rows if not row[place]][:1]]:
            old = row[place]
            for new in changed_cells(old, column):
                row[place] = new
                yield Change(f"{shown}.{column}", path, old, new, written())
            row[place] = old
    if rows:
        yield Change(f"{shown}: row twice", path, "", "", written() + written().splitlines(keepends=True)[-1])
        kept = rows.pop()
        yield Change(f"{shown}: row gone", path, kept, None, written())


def _jsonl_changes(path: Path, shown: str, seen: set[str]) -> Iterator[Change]:
    lines = path.read_bytes().splitlines(keepends=True)
    for at, line in enumerate(lines):
        record = orjson.loads(line)
        for field, old in list(record.items()):
            spot = f"{shown}/{record['event']}.{field}" if "event" in record else f"{shown}.{field}"
            if spot in seen:
                continue
            seen.add(spot)
            for new in changed_values(old, field):
                changed = orjson.dumps({**record, field: new}, option=orjson.OPT_APPEND_NEWLINE)
                yield Change(spot, path, old, new, b"".join([*lines[:at], changed, *lines[at + 1 :]]))
    if not lines:
        return
    yield Change(f"{shown}: last line gone", path, lines[-1], None, b"".join(lines[:-1]))
    middle = len(lines) // 2
    yield Change(f"{shown}: line gone", path, lines[middle], None, b"".join(lines[:middle] + lines[middle + 1 :]))
    yield Change(f"{shown}: line twice", path, lines[middle], None, b"".join([*lines, lines[middle]]))


def every_change(root: Path) -> Iterator[Change]:
    """Yield every change of the first arm and of the manifest of a bundle."""
    arm = sorted((root / "arms").iterdir())[0]
    yield from _json_changes(root / "manifest.json", "manifest")
    yield from _json_changes(arm / "arm.json", "arm")
    yield from _json_changes(arm / "schedule.json", "schedule")
    yield from _json_changes(sorted((arm / "receipts").iterdir())[0], "receipt")
    yield from _csv_changes(arm / "instances.csv", "instances")
    for path in sorted((arm / "tables").iterdir()):
        yield from _csv_changes(path, f"tables/{path.stem}")
    for folder in ("history", "witness"):
        seen: set[str] = set()
        for path in sorted((arm / folder).iterdir()):
            yield from _jsonl_changes(path, "sink" if path.stem == "sink" else folder, seen)


def apply(change: Change, root: Path) -> Callable[[], None]:
    """Make the change and seal again, as one who means it; returns what takes it back."""
    before = change.path.read_bytes()
    change.path.write_bytes(change.content)
    seal(root)

    def take_back() -> None:
        change.path.write_bytes(before)

    return take_back


class Detector:
    """Says whether any check objects to a bundle, asking no further than the first that does.

    The checker that found the latest change is asked first: changes of one file are mostly found by one checker.
    """

    def __init__(self) -> None:
        self._checkers = list(CHECKERS)

    def objects(self, root: Path, manifest_only: bool = False) -> bool:
        """An arm is judged by its own files and the seed alone: a change of the manifest needs no further look."""
        try:
            bundle = load(root)
        except BundleUnreadable:
            return True
        if bundle.broken or any(finding.status is not Status.PASS for finding in bundle_findings(bundle)):
            return True
        if manifest_only:
            return False
        return any(arm.damage or self._any_finds(Facts(arm)) for arm in bundle.arms)

    def _any_finds(self, facts: Facts) -> bool:
        for place, checker in enumerate(self._checkers):
            if checker.applies(facts.spec) and checker.run(facts):
                self._checkers.insert(0, self._checkers.pop(place))
                return True
        return False
