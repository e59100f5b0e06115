"""What the server did in the background while something was measured, read from its own log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

LOGGED: Final = {"log_checkpoints": "on", "log_autovacuum_min_duration": "0"}
"""Server settings under which the log tells all of it."""

_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC \[\d+\] (.*)$")
_VACUUM = re.compile(r'automatic (vacuum|analyze) of table "[^"]*\.ninelives\.([^".]+)"')
_ELAPSED = re.compile(r"elapsed: ([0-9.]+) s")


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of background work, in seconds of the epoch by the server's clock; ``what`` names it."""

    what: str
    begin: float
    end: float

    def overlaps(self, begin: float, end: float) -> bool:
        """Tell whether it worked at any moment of a window."""
        return self.begin < end and self.end > begin


def read_spells(log: Path, now: float) -> list[Spell]:
    """Return checkpoints and automatic vacuums of a server's log; one that still runs ends ``now``."""
    with log.open(errors="replace") as file:
        return spells_of(file, now)


def spells_of(lines: Iterable[str], now: float) -> list[Spell]:
    """Return the spells that the lines of a log tell of, in the order in which they ended."""
    found: list[Spell] = []
    checkpoint_began: float | None = None
    vacuum: tuple[str, float] | None = None
    for line in lines:
        match = _LINE.match(line)
        if match is not None:
            at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp()
            said = match[2]
            vacuum = None
            if "checkpoint starting" in said:
                checkpoint_began = at
            elif "checkpoint complete" in said and checkpoint_began is not None:
                found.append(Spell("checkpoint", checkpoint_began, at))
                checkpoint_began = None
            elif (named := _VACUUM.search(said)) is not None:
                vacuum = f"{named[1]} {named[2]}", at
        # How long a vacuum took is told in a later line of the same entry.
        if vacuum is not None and (took := _ELAPSED.search(line)) is not None:
            found.append(Spell(vacuum[0], vacuum[1] - float(took[1]), vacuum[1]))
            vacuum = None
    if checkpoint_began is not None:
        found.append(Spell("checkpoint", checkpoint_began, now))
    return found
