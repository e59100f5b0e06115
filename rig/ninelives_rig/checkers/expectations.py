"""Whether an arm that promises exact counts has exactly these."""

from __future__ import annotations

from typing import Any

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import Facts
from ninelives_rig.checkers.metrics import measure
from ninelives_rig.evidence.spec import ArmSpec
from ninelives_rig.verdict import Finding, Status

_DUPLICATES = {
    "duplicates_documented": "documented_window",
    "duplicates_against": "against_guarantee",
    "duplicates_between": "between_live_workers",
}


def check_expectations(facts: Facts) -> list[Finding]:
    """Compare every promised count. Another number of kills than promised makes the other counts prove
    nothing.
    """
    problems = Problems("expectations")
    metrics = measure(facts)
    different: list[str] = []
    unknown: list[str] = []
    kills: list[str] = []
    for name, expected in sorted(facts.spec.expect.items()):
        found = _counted(metrics, name)
        if found is None:
            unknown.append(name)
        elif found != expected:
            line = f"{name}: expected {expected}, found {found}"
            (kills if name == "kills" else different).append(line)
    problems.add("kills", Status.INCONCLUSIVE, "Another number of kills was proved.", kills)
    problems.add("unknown", Status.INCONCLUSIVE, "{n} expectations are of counts that nobody counts.", unknown)
    status = Status.INCONCLUSIVE if kills or facts.evidence_lost else Status.FAIL
    problems.add("different", status, "{n} counts are not exactly as promised.", different)
    return problems.found


def _counted(metrics: dict[str, Any], name: str) -> int | None:
    if name == "kills":
        name = "kills_proved"
    value = metrics["duplicates"][_DUPLICATES[name]] if name in _DUPLICATES else metrics.get(name)
    return value if type(value) is int else None


def _has_expectations(spec: ArmSpec) -> bool:
    return bool(spec.expect)


CHECKERS = (
    Checker(
        "expectations",
        "Every promised count is exact.",
        ("kills", "unknown", "different"),
        check_expectations,
        _has_expectations,
    ),
)
