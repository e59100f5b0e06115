"""Evidence files as typed pandas frames.

A cell that is not what its column promises is recorded as damage and its row is left out, so that a checker
never compares with a NaN (``NaN > limit`` is false, and would read as a pass).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column that judging needs. ``kind`` is ``text``, ``int`` or ``bool``; an optional cell may be null.

    No number of the evidence is below ``least``: times, counts and tokens are never negative.
    """

    name: str
    kind: str = "text"
    required: bool = True
    blank: bool = False
    least: int = 0


def text(name: str, *, required: bool = True, blank: bool = False) -> Column:
    """Declare a text column; ``blank`` allows the empty string and reads null as one."""
    return Column(name, "text", required, blank)


def number(name: str, *, required: bool = True, least: int = 0) -> Column:
    """Declare an integer column."""
    return Column(name, "int", required, least=least)


def flag(name: str, *, required: bool = True) -> Column:
    """Declare a boolean column."""
    return Column(name, "bool", required)


@dataclass(frozen=True)
class Damage:
    """Evidence that cannot be read as what it should be; ``line`` counts from 1, 0 means the whole file."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


@dataclass
class Reading:
    """A frame with what went wrong while it was read. ``tails`` are files whose last line a kill cut
    short.
    """

    frame: pd.DataFrame
    damage: list[Damage] = field(default_factory=list)
    tails: list[str] = field(default_factory=list)


def json_cell(kind: str, value: Any) -> Any:
    """Refuse a JSON value that is not of the column kind already: ``ValueError``."""
    raise ValueError(f"{value!r} is not {_ARTICLES[kind]}")


_BOOLEANS = {"t": True, "true": True, "True": True, "f": False, "false": False, "False": False}


def csv_cell(kind: str, value: str) -> Any:
    """Parse a CSV field as the column kind; ``ValueError`` if it is not one."""
    if kind == "bool":
        if value not in _BOOLEANS:
            raise ValueError("not a boolean")
        return _BOOLEANS[value]
    return int(value)


def _series(column: Column, values: list[Any]) -> pd.Series[Any]:
    if column.kind == "text":
        return pd.Series(values, dtype="object")
    if column.required:
        return pd.Series(values, dtype="int64" if column.kind == "int" else "bool")
    return pd.Series(values, dtype="Int64" if column.kind == "int" else "boolean")


def build_frame(
    columns: Sequence[Column],
    places: Sequence[tuple[str, int]],
    raw: Mapping[str, Sequence[Any]],
    cell: Callable[[str, Any], Any],
) -> Reading:
    """Build a frame from raw values by column; ``places`` has the path and line of each row, for damage."""
    reasons: dict[int, str] = {}
    parsed = {column.name: _parse(column, raw[column.name], cell, reasons) for column in columns}
    if reasons:
        whole = [at for at in range(len(places)) if at not in reasons]
        parsed = {name: [values[at] for at in whole] for name, values in parsed.items()}
    frame = pd.DataFrame({column.name: _series(column, parsed[column.name]) for column in columns})
    return Reading(frame, [Damage(*places[at], reason) for at, reason in sorted(reasons.items())])


def _parse(column: Column, raw: Sequence[Any], cell: Callable[[str, Any], Any], reasons: dict[int, str]) -> list[Any]:
    """Parse one column; a cell that is not of its kind puts the row's number and a reason into ``reasons``."""
    kind, wanted = column.kind, _TYPES[column.kind]
    values: list[Any] = []
    for at, value in enumerate(raw):
        if value is None or value == "":
            if column.required:
                reasons.setdefault(at, f"{column.name} is missing, null or empty")
            values.append("" if column.blank else None)
            continue
        try:
            found: Any = value if type(value) is wanted else cell(kind, value)
            if kind == "int" and not column.least <= found < _INT64:
                raise ValueError("out of range")
            values.append(found)
        except ValueError:
            reasons.setdefault(at, f"{column.name} is {value!r}, not {_ARTICLES[kind]}")
            values.append(None)
    return values


_INT64 = 1 << 63
_TYPES: dict[str, type] = {"int": int, "bool": bool, "text": str}
_ARTICLES = {"int": "an integer", "bool": "a boolean", "text": "a text"}


def build_records(
    columns: Sequence[Column], places: Sequence[tuple[str, int]], records: Sequence[Mapping[str, Any]]
) -> Reading:
    """Build a frame from JSON objects, with the path and line of each."""
    raw = {column.name: [record.get(column.name) for record in records] for column in columns}
    return build_frame(columns, places, raw, json_cell)


def read_csv(path: Path, shown: str, columns: Sequence[Column]) -> Reading:
    """Read a table; ``shown`` names the file in damage. A missing file or column is damage and an empty
    frame.
    """

    def broken(reason: str) -> Reading:
        reading = build_frame(columns, (), {column.name: () for column in columns}, csv_cell)
        reading.damage.append(Damage(shown, 0, reason))
        return reading

    csv.field_size_limit(1 << 30)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file, strict=True)
            head = next(reader, None)
            if head is None:
                return broken("has no header line")
            absent = [column.name for column in columns if column.required and column.name not in head]
            if absent:
                return broken(f"lacks the column {', '.join(absent)}")
            places = {name: place for place, name in enumerate(head)}
            rows = [(reader.line_num, row) for row in reader]
    except FileNotFoundError:
        return broken("is missing")
    except (OSError, ValueError, csv.Error) as error:
        return broken(f"cannot be read: {error}")

    ragged = [line for line, row in rows if len(row) != len(head)]

    whole = [(line, row) for line, row in rows if len(row) == len(head)]
    raw = {
        column.name: [row[places[column.name]] if column.name in places else None for _, row in whole]
        for column in columns
    }
    reading = build_frame(columns, [(shown, line) for line, _ in whole], raw, csv_cell)
    reading.damage.extend(Damage(shown, line, "has another number of fields than the header") for line in ragged)
    return reading


def read_jsonl(files: Sequence[tuple[Path, str]], columns: Sequence[Column], *, owned: bool = False) -> Reading:
    """Read and join JSON-lines files given as (path, name shown in damage).

    An ``owned`` file is of the process whose name it has, and no line in it is of another.

    A last line without its newline that does not parse was cut short by a kill: it is counted in ``tails``.
    Anything else that does not parse is damage.
    """
    places: list[tuple[str, int]] = []
    records: list[dict[str, Any]] = []
    damage: list[Damage] = []
    tails: list[str] = []
    for path, shown in files:
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            damage.append(Damage(shown, 0, f"cannot be read: {error}"))
            continue
        for line, content in enumerate(lines, 1):
            is_tail = line == len(lines)
            if is_tail and not content:
                continue
            try:
                record = orjson.loads(content)
            except ValueError as error:
                if is_tail:
                    tails.append(shown)
                else:
                    damage.append(Damage(shown, line, f"is not JSON: {error}"))
                continue
            if owned and isinstance(record, dict) and record.get("process") != path.stem:
                damage.append(Damage(shown, line, f"is of the process {record.get('process')!r}"))
            elif isinstance(record, dict):
                places.append((shown, line))
                records.append(record)
            else:
                damage.append(Damage(shown, line, "is not a JSON object"))
    reading = build_records(columns, places, records)
    reading.damage = damage + reading.damage
    reading.tails = tails
    return reading
