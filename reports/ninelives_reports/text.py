"""How figures, tables and foreign text are written in markdown. What is unknown is a dash, never NaN or None."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

UNKNOWN = "–"


def whole(value: object) -> str:
    """Write a count with its thousands apart."""
    return f"{value:,}".replace(",", " ") if type(value) is int else UNKNOWN


def seconds(value: object) -> str:
    """Write a duration in seconds, to the millisecond below ten and to a tenth above."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return UNKNOWN
    return f"{value:.3f} s" if abs(value) < 10 else f"{value:.1f} s"


def setting(value: object) -> str:
    """Write a setting as it was recorded, without the zeros behind its point."""
    if value is None or value == "" or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value) or "none"
    return plain(value)


def plain(value: object) -> str:
    """Write a foreign text in one line, so that it can begin no heading, table or block."""
    return " ".join(str(value).split())


def counted(count: int | None, noun: str, plural: str | None = None) -> str:
    """Write a count with its noun, in the plural unless it is one."""
    return f"{whole(count)} {noun if count == 1 else plural or noun + 's'}"


def cell(value: object) -> str:
    """Make a text fit into one cell of a table."""
    return plain(value).replace("|", "\\|")


def code(value: object) -> str:
    """Write a text as code, whatever it holds."""
    return f"`{plain(value).replace('`', chr(39))}`"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> list[str]:
    """Write a table whose first ``left`` columns are text and whose others are figures."""
    rules = [":---" if place < left else "---:" for place in range(len(head))]
    lines = [head, rules, *rows]
    return ["| " + " | ".join(cell(value) for value in line) + " |" for line in lines]


def sheet(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Write a table of texts only."""
    return table(head, rows, left=len(head))


def fenced(lines: Iterable[object]) -> list[str]:
    """Write lines as they are, in a block that no line can end."""
    return ["```text", *(str(line).replace("```", "'''") for line in lines), "```"]


def slug(name: str) -> str:
    """Make a name fit for a file: letters, digits, dot, dash and underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "unnamed"


def join(sections: Iterable[Sequence[str]]) -> str:
    """Put sections of lines one below the other, with an empty line between them."""
    return "\n\n".join("\n".join(lines) for lines in sections if lines)
