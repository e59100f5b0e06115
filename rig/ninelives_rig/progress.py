"""How far a run is: a live bar on a terminal, plain lines elsewhere, nothing when asked to be quiet."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_PLAIN_EVERY_S = 10.0


class Display:
    """Shows one arm at a time: phase, flows done, kills, takeovers. Writes to standard error only."""

    def __init__(self, *, plain: bool = False, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._bar: Progress | None = None
        if not quiet and not plain and self._stream.isatty():
            self._bar = Progress(
                TextColumn("[bold]{task.fields[arm]}[/] {task.fields[phase]:<8}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f} flows  {task.fields[detail]}"),
                TimeElapsedColumn(),
                console=Console(file=self._stream),
            )
        self._task = self._bar.add_task("", arm="", phase="", detail="", total=1) if self._bar else None
        self._arm, self._phase, self._total = "", "", 0
        self._said_at = 0.0

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self._quiet:
            return
        if self._bar:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=self._stream, flush=True)

    def enter_arm(self, arm: str, flows: int) -> None:
        """Begin to show an arm of so many flows."""
        self._arm, self._total = arm, flows
        if self._bar and self._task is not None:
            self._bar.reset(self._task, total=flows, arm=arm, phase="", detail="")

    def enter_phase(self, phase: str) -> None:
        """Show that a phase of the arm has begun."""
        self._phase = phase
        self._said_at = 0.0
        if self._bar and self._task is not None:
            self._bar.update(self._task, phase=phase)

    def update(self, done: int, detail: str) -> None:
        """Show how many flows are done, and the rest in words."""
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=done, detail=detail)
        elif time.monotonic() - self._said_at >= _PLAIN_EVERY_S:
            self._said_at = time.monotonic()
            self.say(f"{self._arm} {self._phase}: {done}/{self._total} flows, {detail}")
