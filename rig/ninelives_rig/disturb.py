"""The coordinator's faults in the course of an arm: each begins when its share is done and heals behind its time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ninelives_rig.campaign import Disturbance
from ninelives_rig.nemesis import NEMESES, Ground, Nemesis


class Disturbances:
    """Carries out an arm's disturbances in the order in which they fall due; kills deliver themselves."""

    def __init__(self, planned: Sequence[Disturbance], flows: int, ground: Ground) -> None:
        self._due = sorted(planned, key=lambda one: (one.at_done, one.at_rows))
        self._flows = flows
        self._ground = ground
        self._lasting: list[Nemesis] = []
        self.changes = 0
        """How many faults have begun or been healed."""

    def tick(self, done: int, rows: int) -> None:
        """Do what is due now that so many flows are done and so many rows are committed."""
        now = time.monotonic()
        for nemesis in list(self._lasting):
            if now >= nemesis.heal_at:
                self._heal(nemesis)
        while self._due and done >= self._due[0].at_done * self._flows and rows >= self._due[0].at_rows:
            if self.server_silent:  # What is due waits: the server could not be asked how far the arm is.
                return
            nemesis = NEMESES[self._due[0].action](self._ground, self._due[0], len(self._due))
            if not nemesis.begin():
                return
            self._due.pop(0)
            self.changes += 1
            if nemesis.lasts:
                self._lasting.append(nemesis)

    @property
    def server_silent(self) -> bool:
        """Whether the server answers nobody now, because of a fault that lasts."""
        return any(nemesis.silences for nemesis in self._lasting)

    @property
    def over(self) -> bool:
        """Whether everything planned has been done and undone."""
        return not self._due and not self._lasting

    def heal(self) -> None:
        """Undo whatever lasts, and plan nothing more."""
        self._due.clear()
        for nemesis in list(self._lasting):
            self._heal(nemesis)

    def _heal(self, nemesis: Nemesis) -> None:
        self._lasting.remove(nemesis)
        nemesis.heal()
        self.changes += 1
