"""A bundle as reports need it: the verdict as it was written, and each arm's evidence behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from ninelives_rig.checkers.facts import Facts
from ninelives_rig.checkers.recovery import Recovery
from ninelives_rig.evidence.bundle import load_arm
from ninelives_rig.evidence.seal import SEAL_NAME
from ninelives_rig.judge import VERDICT_NAME, assess

Record = Mapping[str, Any]


@dataclass(frozen=True)
class ArmView:
    """One arm: what its ``arm.json`` declares, what the verdict says of it, and its evidence, if that can be read.

    ``problem`` says why there are no ``facts``.
    """

    name: str
    folder: Path
    declared: Record
    judged: Record
    facts: Facts | None
    problem: str | None = None

    @cached_property
    def recovery(self) -> Recovery | None:
        """What became of the abandoned flows; None where the evidence does not say."""
        if self.facts is None:
            return None
        try:
            recovery = Recovery(self.facts)
            len(recovery.abandoned)
        except Exception:  # the checkers say what is wrong with the evidence
            return None
        return recovery

    @property
    def status(self) -> str:
        """The arm's verdict; an arm that nobody judged has none."""
        return str(self.judged.get("verdict") or "not judged")

    @property
    def effect(self) -> str:
        """The effect that the arm's steps declare."""
        return str(self.judged.get("effect") or self.declared.get("effect") or "unknown")

    def count(self, *names: str) -> int | None:
        """Return a whole figure of the verdict, found by its path, or None where there is none."""
        value: Any = self.judged
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if type(value) is int else None

    def measure(self, *names: str) -> object:
        """Return any figure of the verdict, found by its path."""
        value: Any = self.judged
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    @property
    def findings(self) -> list[Record]:
        """Every finding about this arm."""
        return records(self.judged.get("findings"))


@dataclass(frozen=True)
class View:
    """A bundle: manifest and verdict as they stand in their files, the arms in order, the digest of its seal."""

    root: Path
    manifest: Record
    verdict: Record
    arms: tuple[ArmView, ...]
    seal: str | None
    judged_here: bool

    @property
    def status(self) -> str:
        """The verdict in one word."""
        return str(self.verdict.get("verdict") or "INCONCLUSIVE")

    @property
    def campaign(self) -> str:
        """The campaign's name."""
        return str(self.manifest.get("campaign") or self.verdict.get("campaign") or "unknown")

    @property
    def engine(self) -> str:
        """The engine under test."""
        return str(self.manifest.get("engine") or self.verdict.get("engine") or "unknown")

    @property
    def seed(self) -> str:
        """The seed of the schedule."""
        seed = self.manifest.get("seed", self.verdict.get("seed"))
        return "unknown" if seed is None else str(seed)

    @property
    def settings(self) -> Record:
        """The server's settings and the first arm's topology."""
        return record(self.manifest.get("settings") or self.verdict.get("settings"))

    @property
    def environment(self) -> Record:
        """The machine and the versions."""
        return record(self.manifest.get("environment"))

    @property
    def findings(self) -> list[Record]:
        """Findings that belong to no arm."""
        return records(self.verdict.get("findings"))

    def total(self, *names: str) -> int | None:
        """Add a figure over all arms; None when an arm does not have it, or there is no arm."""
        counts = [arm.count(*names) for arm in self.arms]
        known = [count for count in counts if count is not None]
        return sum(known) if counts and len(known) == len(counts) else None


def load_view(root: Path) -> View:
    """Load a bundle for reporting. A bundle without a readable verdict is judged in memory; nothing is written."""
    manifest = record(_read(root / "manifest.json"))
    verdict = record(_read(root / VERDICT_NAME))
    judged_here = "verdict" not in verdict
    if judged_here:
        verdict = assess(root).as_dict()
    return View(
        root=root,
        manifest=manifest,
        verdict=verdict,
        arms=tuple(_load_arms(root, manifest, verdict)),
        seal=_digest(root / SEAL_NAME),
        judged_here=judged_here,
    )


def _load_arms(root: Path, manifest: Record, verdict: Record) -> list[ArmView]:
    judged = {str(arm.get("name")): arm for arm in records(verdict.get("arms"))}
    declared = manifest.get("arms")
    names = [name for name in declared if isinstance(name, str)] if isinstance(declared, list) else []
    return [_load_arm(root, name, judged.get(name, {})) for name in dict.fromkeys([*names, *judged])]


def _load_arm(root: Path, name: str, judged: Record) -> ArmView:
    folder = root / "arms" / name
    declared = record(_read(folder / "arm.json"))
    try:
        return ArmView(name, folder, declared, judged, Facts(load_arm(root, name)))
    except Exception as error:  # whatever is wrong with the evidence, the report is there to say so
        return ArmView(name, folder, declared, judged, None, str(error))


def _read(path: Path) -> object:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def record(value: object) -> Record:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def records(value: object) -> list[Record]:
    """Return the JSON objects of a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
