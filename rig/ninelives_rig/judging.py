"""The way from a written bundle to an outcome: judge, report; or why there is nothing to judge."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from ninelives_rig.evidence.seal import seal
from ninelives_rig.evidence.writer import BundleWriter, write_json
from ninelives_rig.progress import Display

EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2, "BROKEN": 3}


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the verdict's word and the content of ``verdict.json``."""

    verdict: str
    content: dict[str, object]

    @property
    def exit_code(self) -> int:
        """0, 1, 2 or 3; an unknown word is a broken rig."""
        return EXIT_CODES.get(self.verdict, 3)


def abort(bundle: BundleWriter, manifest: dict[str, object], reason: str) -> Outcome:
    """Mark a bundle whose run was interrupted. It proves nothing, whatever it holds."""
    return _unjudged(bundle, manifest, "INCONCLUSIVE", "aborted", reason)


def mark_broken(bundle: BundleWriter, manifest: dict[str, object], error: Exception) -> Outcome:
    """Mark a bundle whose run the rig itself could not finish."""
    return _unjudged(bundle, manifest, "BROKEN", "broken", f"{type(error).__name__}: {error}")


def _unjudged(bundle: BundleWriter, manifest: dict[str, object], verdict: str, mark: str, reason: str) -> Outcome:
    begun = [name for name in _names(manifest) if (bundle.root / "arms" / name / "arm.json").exists()]
    bundle.manifest({**manifest, "arms": begun, mark: reason})
    seal(bundle.root)
    content: dict[str, object] = {
        "verdict": verdict,
        "reason": f"{mark}: {reason}",
        "engine": manifest["engine"],
        "seed": manifest["seed"],
        "arms": [],
        "settings": manifest["settings"],
    }
    write_json(bundle.root / "verdict.json", content)
    return Outcome(verdict, content)


def _names(manifest: dict[str, object]) -> list[str]:
    names = manifest["arms"]
    assert isinstance(names, list)
    return names


def judge(root: Path) -> Outcome:
    """Judge a sealed bundle and write its ``verdict.json``."""
    content = importlib.import_module("ninelives_rig.judge").judge(root)
    return Outcome(str(content["verdict"]), content)


def report(root: Path, display: Display) -> None:
    """Write the report beside the evidence. A report that fails is said, and changes no verdict."""
    try:
        importlib.import_module("ninelives_reports").render(root)
    except Exception as error:
        display.say(f"no report: {type(error).__name__}: {error}; try `ninelives-rig report {root}`")
