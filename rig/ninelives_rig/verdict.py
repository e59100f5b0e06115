"""Findings, verdicts and the order in which they merge. Nothing here reads a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Status(Enum):
    """What a finding, an arm or a run comes to; the value is what ``verdict.json`` prints."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    BROKEN = "BROKEN"

    @property
    def exit_code(self) -> int:
        """The process exit code that says the same: 0, 1, 2 or 3."""
        return _EXIT_CODES[self]


_EXIT_CODES = {Status.PASS: 0, Status.FAIL: 1, Status.INCONCLUSIVE: 2, Status.BROKEN: 3}
# Broken means that the evidence itself cannot be read or trusted, so that no finding in it can either.
_ORDER = (Status.PASS, Status.INCONCLUSIVE, Status.FAIL, Status.BROKEN)


def merge(statuses: Iterable[Status]) -> Status:
    """Return the gravest status. Nothing at all merges to INCONCLUSIVE: no check has passed."""
    found = list(statuses)
    return max(found, key=_ORDER.index) if found else Status.INCONCLUSIVE


@dataclass(frozen=True)
class Finding:
    """One statement about the evidence, with the first lines of it that show why.

    ``name`` is ``checker.kind``, or the checker's name alone when it passed. ``from_absence`` marks a
    finding that rests on evidence being missing, which proves nothing when evidence is known to be lost.
    """

    name: str
    status: Status
    count: int
    sentence: str
    lines: tuple[str, ...] = ()
    arm: str | None = None
    from_absence: bool = False

    @property
    def checker(self) -> str:
        """The checker that made the finding."""
        return self.name.partition(".")[0]

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as ``verdict.json`` holds it."""
        return {
            "name": self.name,
            "checker": self.checker,
            "status": self.status.value,
            "count": self.count,
            "sentence": self.sentence,
            "lines": list(self.lines),
        }


@dataclass(frozen=True)
class ArmVerdict:
    """What one arm comes to: its metrics by name, its findings, and their merged status."""

    name: str
    metrics: Mapping[str, Any]
    findings: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        """The arm's findings merged."""
        return merge(finding.status for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the arm as ``verdict.json`` holds it."""
        return {
            "name": self.name,
            **self.metrics,
            "verdict": self.status.value,
            "findings": [finding.as_dict() for finding in self.findings],
        }


@dataclass(frozen=True)
class Verdict:
    """What a whole bundle comes to. ``findings`` are those that belong to no single arm."""

    campaign: str | None
    engine: str | None
    seed: object
    commit: str | None
    settings: Mapping[str, Any]
    arms: tuple[ArmVerdict, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def status(self) -> Status:
        """All arms and findings merged; a bundle without arms is never a pass."""
        statuses = [arm.status for arm in self.arms] or [Status.INCONCLUSIVE]
        return merge([*statuses, *(finding.status for finding in self.findings)])

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """Every finding: the bundle's own first, then each arm's."""
        return self.findings + tuple(finding for arm in self.arms for finding in arm.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``verdict.json``."""
        return {
            "schema": 1,
            "verdict": self.status.value,
            "exit_code": self.status.exit_code,
            "campaign": self.campaign,
            "engine": self.engine,
            "seed": self.seed,
            "commit": self.commit,
            "arms": [arm.as_dict() for arm in self.arms],
            "findings": [finding.as_dict() for finding in self.findings],
            "settings": dict(self.settings),
        }
