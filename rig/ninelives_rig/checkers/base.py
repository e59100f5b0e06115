"""What a checker is: a pure function from an arm's facts to the problems it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from ninelives_rig.checkers.facts import Facts, show_all
from ninelives_rig.evidence.spec import ArmSpec
from ninelives_rig.verdict import Finding, Status

LINES_MAX = 5


def always(spec: ArmSpec) -> bool:
    """Apply to every arm."""
    return True


@dataclass(frozen=True)
class Checker:
    """One property. ``promise`` is what holds when it finds nothing; ``kinds`` are the problems it can name.

    ``applies`` says whether the engine has what the property is about: where it does not, the checker is
    listed as not applicable, which is not a pass.
    """

    name: str
    promise: str
    kinds: tuple[str, ...]
    run: Callable[[Facts], list[Finding]]
    applies: Callable[[ArmSpec], bool] = always

    @property
    def finding_names(self) -> tuple[str, ...]:
        """The full names of the problems that this checker can find."""
        return tuple(f"{self.name}.{kind}" for kind in self.kinds)


class Problems:
    """Collects a checker's findings; a call with nothing to show adds none."""

    def __init__(self, checker: str) -> None:
        self._checker = checker
        self.found: list[Finding] = []

    def add(
        self,
        kind: str,
        status: Status,
        sentence: str,
        lines: Iterable[str],
        *,
        count: int | None = None,
        from_absence: bool = False,
    ) -> None:
        """Add a finding over all ``lines`` (of which the first few are kept), unless there are none."""
        shown = tuple(lines)
        total = len(shown) if count is None else count
        if not total:
            return
        first = f" First: {shown[0]}." if shown else ""
        self.found.append(
            Finding(
                name=f"{self._checker}.{kind}",
                status=status,
                count=total,
                sentence=sentence.format(n=total) + first,
                lines=shown[:LINES_MAX],
                from_absence=from_absence,
            )
        )

    def add_rows(
        self,
        kind: str,
        status: Status,
        sentence: str,
        frame: pd.DataFrame,
        columns: Sequence[str],
        *,
        from_absence: bool = False,
    ) -> None:
        """Add a finding over the rows of a frame, shown by these columns."""
        if frame.empty:
            return
        lines = show_all(frame, *columns, limit=LINES_MAX)
        self.add(kind, status, sentence, lines, count=len(frame), from_absence=from_absence)


def unless_progressing(facts: Facts) -> Status:
    """FAIL, or INCONCLUSIVE where time ran out while instances still finished."""
    return Status.INCONCLUSIVE if facts.still_progressing else Status.FAIL
