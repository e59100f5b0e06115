"""Which steps of which scopes are done, kept small: elements and iterations that got equally far share an entry."""

from __future__ import annotations

from typing import Any

from .plan import split_scope
from .ranges import Ranges


class Progress:
    """A set of (scope, step id).

    The flow's own steps are one set of ranges. For nested scopes each family (`7/`, `7#`) maps a set of step ids
    to the indexes that have exactly this set, so that 20 000 finished iterations are one entry.
    """

    __slots__ = ("families", "root")

    def __init__(self) -> None:
        self.root = Ranges()
        self.families: dict[str, dict[tuple[int, ...], Ranges]] = {}

    def add(self, scope: str, step_id: int) -> bool:
        """Put a step in; False when it was in already."""
        if not scope:
            return self.root.add(step_id)
        family, index = split_scope(scope)
        groups = self.families.setdefault(family, {})
        steps: tuple[int, ...] = ()
        for known, indexes in groups.items():
            if index in indexes:
                steps = known
                break
        grown = Ranges(steps)
        if not grown.add(step_id):
            return False
        if steps:
            groups[steps].discard(index)
            if not groups[steps]:
                del groups[steps]
        groups.setdefault(tuple(grown.dump()), Ranges()).add(index)
        return True

    def __contains__(self, key: tuple[str, int]) -> bool:
        scope, step_id = key
        if not scope:
            return step_id in self.root
        family, index = split_scope(scope)
        for steps, indexes in self.families.get(family, {}).items():
            if index in indexes:
                return step_id in Ranges(steps)
        return False

    def forget(self, prefix: str) -> None:
        """Drop every family inside the scope `prefix`."""
        inside = prefix + "/"
        for family in [family for family in self.families if family.startswith(inside)]:
            del self.families[family]

    def dump(self) -> list[Any]:
        """Return a JSON value that `load` turns into an equal progress."""
        if not self.families:
            return [self.root.dump()]
        return [
            self.root.dump(),
            [
                [family, [[list(steps), indexes.dump()] for steps, indexes in sorted(groups.items())]]
                for family, groups in sorted(self.families.items())
            ],
        ]

    @classmethod
    def load(cls, dumped: list[Any]) -> Progress:
        """Rebuild from `dump`. Raises ValueError, TypeError or IndexError when it is not one."""
        progress = cls()
        progress.root = Ranges(dumped[0])
        for family, groups in dumped[1] if len(dumped) > 1 else ():
            split_scope(f"{family}1")
            progress.families[family] = {tuple(steps): Ranges(indexes) for steps, indexes in groups}
        return progress
