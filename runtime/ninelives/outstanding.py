"""Which claims are still unanswered: the audit may only judge leases that no claim in flight may have taken."""

from __future__ import annotations


class Outstanding:
    """Numbers the claims of a node in the order in which they were sent."""

    def __init__(self) -> None:
        self._next = 0
        self._open: set[int] = set()

    def begin(self) -> int:
        """Count a claim that is about to be sent, and return its number."""
        number = self._next
        self._next += 1
        self._open.add(number)
        return number

    def end(self, number: int) -> None:
        """The leases of that claim are known, or will never be."""
        self._open.discard(number)

    def mark(self) -> int:
        """Return a mark: claims sent so far are below it."""
        return self._next

    def settled_before(self, mark: int | None) -> bool:
        """Tell whether every claim sent before ``mark`` is answered; ``None`` is never settled."""
        return mark is not None and all(number >= mark for number in self._open)
