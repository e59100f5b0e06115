"""What the coordinator itself does to nodes while an arm runs: asks one to leave, freezes or buries one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ninelives_rig.campaign import Disturbance
from ninelives_rig.nodes import Fleet, Node


class Disturbances:
    """Carries out an arm's disturbances when their share of the flows is done; kills deliver themselves."""

    def __init__(
        self, planned: Sequence[Disturbance], flows: int, fleet: Fleet, bury: Callable[[str], bool]
    ) -> None:
        """``bury`` gets a living process's name and declares it dead in the store; false if it is not known there."""
        self._due = sorted(planned, key=lambda one: one.at_done)
        self._flows = flows
        self._fleet = fleet
        self._bury = bury
        self._frozen: list[tuple[float, Node]] = []

    def tick(self, done: int, rows: int) -> None:
        """Do what is due now that so many flows are done and so many rows are committed."""
        now = time.monotonic()
        for until, node in list(self._frozen):
            if now >= until:
                self._thaw(until, node)
        while self._due and done >= self._due[0].at_done * self._flows and rows >= self._due[0].at_rows:
            # One that is on its way out already would make two disturbances one.
            candidates = [n for n in self._fleet.nodes if n.order.role == self._due[0].role and not n.retired]
            if not candidates or not self._carry_out(self._due[0], self._choose(candidates)):
                return
            self._due.pop(0)

    def _choose(self, candidates: Sequence[Node]) -> Node:
        """Whose turn it is; of those that leave the oldest, because one that has just come holds nothing yet."""
        if self._due[0].action == "terminate":
            return min(candidates, key=lambda node: node.identity.start_time)
        return candidates[len(self._due) % len(candidates)]

    def _carry_out(self, disturbance: Disturbance, node: Node) -> bool:
        """Do it to this node; false if that cannot be done yet."""
        if disturbance.action == "terminate":
            self._fleet.retire(node)
        elif disturbance.action == "bury":
            if not self._bury(node.order.process):
                return False
            self._fleet.note_burial(node)
        else:
            self._fleet.freeze(node)
            self._frozen.append((time.monotonic() + disturbance.hold_s, node))
        return True

    @property
    def over(self) -> bool:
        """Whether everything planned has been done and undone."""
        return not self._due and not self._frozen

    def heal(self) -> None:
        """Let every frozen node go on, and plan nothing more."""
        self._due.clear()
        for until, node in list(self._frozen):
            self._thaw(until, node)

    def _thaw(self, until: float, node: Node) -> None:
        self._frozen.remove((until, node))
        if node in self._fleet.nodes:
            self._fleet.thaw(node)
