"""Which claims are still unanswered: the audit may only judge leases that no claim in flight may have taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Outstanding:
    """Numbers the claims of a node in the order in which they were sent."""

    def __init__(self) -> None:
        self._next = 0
        self._open: set[int] = set()

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Count a claim from before it is sent until its leases are known."""
        number = self._next
        self._next += 1
        self._open.add(number)
        try:
            yield
        finally:
            self._open.discard(number)

    def mark(self) -> int:
        """Return a mark: claims sent so far are below it."""
        return self._next

    def settled_before(self, mark: int | None) -> bool:
        """Tell whether every claim sent before ``mark`` is answered; ``None`` is never settled."""
        return mark is not None and all(number >= mark for number in self._open)
