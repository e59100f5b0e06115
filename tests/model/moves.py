"""The steps that may be taken in a state: who does what, whether it can be relied upon, and where it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVarTuple

from tests.model.setting import Setting
from tests.model.space import Move, Violation
from tests.model.state import Draft, State

Ts = TypeVarTuple("Ts")


class Moves:
    """Collects the steps that may be taken in one state; a step that changes nothing is none."""

    __slots__ = ("found", "setting", "state")

    def __init__(self, setting: Setting, state: State) -> None:
        self.setting = setting
        self.state = state
        self.found: list[Move[State]] = []

    def will(self, label: str, change: Callable[[Draft, *Ts], None], *args: *Ts) -> None:
        """A step that happens in the end if it stays possible."""
        self._take(label, True, change, args)

    def may(self, label: str, change: Callable[[Draft, *Ts], None], *args: *Ts) -> None:
        """A step that nobody can rely upon: a fault, a thaw, something that a client is free not to do."""
        self._take(label, False, change, args)

    def _take(self, label: str, fair: bool, change: Callable[[Draft, *Ts], None], args: tuple[*Ts]) -> None:
        draft = Draft(self.setting, self.state)
        try:
            change(draft, *args)
        except Violation as violation:
            self.found.append(Move(label, fair, None, violation))
            return
        target = draft.sealed()
        if target != self.state:
            self.found.append(Move(label, fair, target, None))
