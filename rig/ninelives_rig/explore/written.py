"""An exploration as markdown, from what `explore.json` holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_COUNTS = ("cases", "schedules", "moves", "waits", "violations")


def as_markdown(content: Mapping[str, Any]) -> str:
    """Return the tables of an exploration: by state, by operation, mutants, and each violation as a script."""
    total, cut = content["total"], content["cut_off"]
    found = sum(one["violation"] is not None for one in content["mutants"])
    good = not total["violations"] and found == len(content["mutants"])
    lines = [
        f"# Every order of the store's statements: {'PASS' if good else 'FAIL'}",
        "",
        f"{total['schedules']} schedules of {total['cases']} cases, {total['moves']} statements and commits sent",
        f"one at a time, {total['waits']} of which waited for a lock: **{total['violations']} violations**;",
        f"{found} of {len(content['mutants'])} race mutants found. {content['seconds']:.0f} s on a server of its own.",
        "",
        "A case is two or three operations that meet in a state. Orders that differ only by moves that commute are run",
        f"once. Cut off, because they have more schedules: {', '.join(cut) or 'none'}. Choices among three operations",
        f"that could not be come back to, because two had waited for one lock: {total['unreached']}.",
        "",
        "## By state",
        "",
        *_table("state", content["states"]),
        "",
        "## By operation",
        "",
        "A case counts for each of its operations.",
        "",
        *_table("operation", content["operations"]),
        "",
        "## Mutants",
        "",
        *_rows(
            ["mutant", "what is gone", "found by", "after schedules", "script"],
            [_mutant(one) for one in content["mutants"]],
        ),
    ]
    for one in content["violations"]:
        lines += ["", f"## {one['case']}:{one['order']}", "", *(f"- {move}" for move in one["moves"])]
        lines += [*(f"- = {answer}" for answer in one["answers"]), *(f"- **{wrong}**" for wrong in one["violations"])]
    return "\n".join(lines) + "\n"


def _mutant(one: Mapping[str, Any]) -> list[object]:
    found = one["violation"] or "**not found**"
    return [one["name"], one["removes"], found, one["schedules"], f"`{one['script']}`"]


def _table(name: str, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    return _rows([name, *_COUNTS], [[one, *(of[count] for count in _COUNTS)] for one, of in counts.items()])


def _rows(head: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
