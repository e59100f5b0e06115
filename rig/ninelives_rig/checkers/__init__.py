"""Judges of one property each: pure functions from an arm's evidence to findings. None opens a database."""

from __future__ import annotations

from ninelives_rig.checkers import (
    assumptions,
    declaration,
    effects,
    expectations,
    holders,
    journal,
    operations,
    outcome,
    records,
    results,
    tables,
)
from ninelives_rig.checkers.base import Checker

CHECKERS: tuple[Checker, ...] = (
    *assumptions.CHECKERS,
    *records.CHECKERS,
    *declaration.CHECKERS,
    *tables.CHECKERS,
    *outcome.CHECKERS,
    *results.CHECKERS,
    *effects.CHECKERS,
    *journal.CHECKERS,
    *holders.CHECKERS,
    *operations.CHECKERS,
    *expectations.CHECKERS,
)
"""Every checker, assumptions first."""

__all__ = ["CHECKERS", "Checker"]
