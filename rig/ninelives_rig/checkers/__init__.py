"""Judges of one property each: pure functions from an arm's evidence to findings. None opens a database."""

from __future__ import annotations

from ninelives_rig.checkers import assumptions, effects, expectations, holders, journal, operations, outcome
from ninelives_rig.checkers.base import Checker

CHECKERS: tuple[Checker, ...] = (
    *assumptions.CHECKERS,
    *outcome.CHECKERS,
    *effects.CHECKERS,
    *journal.CHECKERS,
    *holders.CHECKERS,
    *operations.CHECKERS,
    *expectations.CHECKERS,
)
"""Every checker, assumptions first."""

__all__ = ["CHECKERS", "Checker"]
