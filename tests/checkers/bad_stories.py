"""All bad histories, in the order of their modules."""

from __future__ import annotations

from tests.checkers import bad_evidence, bad_operations, bad_promises, bad_records
from tests.checkers.cases import CASES, Case

__all__ = ["CASES", "Case", "bad_evidence", "bad_operations", "bad_promises", "bad_records"]
