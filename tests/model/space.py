"""What a model is to the search: states, the moves between them, what must hold, and what counts as having ended."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class Violation(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(invariant, what)
        self.invariant, self.what = invariant, what

    def __str__(self) -> str:
        return f"{self.invariant} {self.what}"


class Move(NamedTuple, Generic[S]):
    """One step. Liveness may count on the ``fair`` ones: they happen in the end if they stay possible."""

    label: str
    fair: bool
    target: S | None
    violation: Violation | None


class Space(Protocol[S]):
    """A model that can be explored."""

    def initial(self) -> S:
        """Return the state in which everything begins."""
        ...

    def moves(self, state: S) -> list[Move[S]]:
        """Return every step that may be taken in a state."""
        ...

    def broken(self, state: S) -> Violation | None:
        """Return the invariant of states that does not hold, if one does not."""
        ...

    def has_ended(self, state: S) -> bool:
        """Tell whether this is an end that has to be reachable from everywhere."""
        ...

    def told(self, state: S) -> Sequence[str]:
        """Say a state in words."""
        ...
