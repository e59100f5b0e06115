"""Evidence files as typed pandas frames.

A cell that is not what its column promises is recorded as damage and its row is left out, so that a checker
never compares with a NaN (``NaN > limit`` is false, and would read as a pass).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column that judging needs. ``kind`` is ``text``, ``int`` or ``bool``; an optional cell may be
    null.
    """

    name: str
    kind: str = "text"
    required: bool = True
    blank: bool = False


def text(name: str, *, required: bool = True, blank: bool = False) -> Column:
    """Declare a text column; ``blank`` allows the empty string and reads null as one."""
    return Column(name, "text", required, blank)


def number(name: str, *, required: bool = True) -> Column:
    """Declare an integer column."""
    return Column(name, "int", required)


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
    """Return a JSON value if it is of the column kind; ``ValueError`` if not."""
    if kind == "int":
        if type(value) is not int:
            raise ValueError("not an integer")
        return value
    if kind == "bool":
        if type(value) is not bool:
            raise ValueError("not a boolean")
        return value
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


_BOOLEANS = {"t": True, "true": True, "True": True, "f": False, "false": False, "False": False}


def csv_cell(kind: str, value: str) -> Any:
    """Parse a CSV field as the column kind; ``ValueError`` if it is not one."""
    if kind == "int":
        return int(value)
    if kind == "bool":
        if value not in _BOOLEANS:
            raise ValueError("not a boolean")
        return _BOOLEANS[value]
    return value


def _series(column: Column, values: list[Any]) -> pd.Series[Any]:
    if column.kind == "text":
        return pd.Series(values, dtype="object")
    if column.required:
        return pd.Series(values, dtype="int64" if column.kind == "int" else "bool")
    return pd.Series(values, dtype="Int64" if column.kind == "int" else "boolean")


def build_frame(
    columns: Sequence[Column],
    records: Iterable[tuple[str, int, Callable[[str], Any]]],
    cell: Callable[[str, Any], Any],
) -> Reading:
    """Build a frame of ``columns`` from records of (path, line, getter by column name)."""
    values: dict[str, list[Any]] = {column.name: [] for column in columns}
    reading = Reading(pd.DataFrame())
    for path, line, get in records:
        row = []
        for column in columns:
            raw = get(column.name)
            if raw is None or (raw == "" and column.kind != "text"):
                if column.required and not column.blank:
                    reading.damage.append(Damage(path, line, f"{column.name} is missing or null"))
                    break
                row.append("" if column.blank else None)
                continue
            try:
                value = cell(column.kind, raw)
            except ValueError:
                reading.damage.append(
                    Damage(path, line, f"{column.name} is {raw!r}, not {_ARTICLES[column.kind]}")
                )
                break
            if value == "" and column.kind == "text" and not column.blank:
                if column.required:
                    reading.damage.append(Damage(path, line, f"{column.name} is empty"))
                    break
                value = None
            row.append(value)
        else:
            for column, value in zip(columns, row, strict=True):
                values[column.name].append(value)
    reading.frame = pd.DataFrame({column.name: _series(column, values[column.name]) for column in columns})
    return reading


_ARTICLES = {"int": "an integer", "bool": "a boolean", "text": "a text"}


def read_csv(path: Path, shown: str, columns: Sequence[Column]) -> Reading:
    """Read a table; ``shown`` names the file in damage. A missing file or column is damage and an empty
    frame.
    """

    def broken(reason: str) -> Reading:
        reading = build_frame(columns, (), csv_cell)
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

    def getter(row: list[str]) -> Callable[[str], Any]:
        return lambda name: row[places[name]] if name in places else None

    whole = ((shown, line, getter(row)) for line, row in rows if len(row) == len(head))
    reading = build_frame(columns, whole, csv_cell)
    reading.damage.extend(
        Damage(shown, line, "has another number of fields than the header") for line in ragged
    )
    return reading


def read_jsonl(files: Sequence[tuple[Path, str]], columns: Sequence[Column]) -> Reading:
    """Read and join JSON-lines files given as (path, name shown in damage).

    A last line without its newline that does not parse was cut short by a kill: it is counted in ``tails``.
    Anything else that does not parse is damage.
    """
    records: list[tuple[str, int, Callable[[str], Any]]] = []
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
            if isinstance(record, dict):
                records.append((shown, line, record.get))
            else:
                damage.append(Damage(shown, line, "is not a JSON object"))
    reading = build_frame(columns, records, json_cell)
    reading.damage = damage + reading.damage
    reading.tails = tails
    return reading
