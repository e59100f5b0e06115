"""The way from a written bundle to an outcome: judge, report; or why there is nothing to judge."""

from __future__ import annotations

import importlib
import shlex
from dataclasses import dataclass
from pathlib import Path

from ninelives_rig.evidence.seal import seal
from ninelives_rig.evidence.writer import BundleWriter, write_json
from ninelives_rig.progress import Display
from ninelives_rig.verdict import Status


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the status, the content of ``verdict.json``, and the same in lines for people."""

    status: Status
    content: dict[str, object]
    lines: tuple[str, ...]


def abort(bundle: BundleWriter, manifest: dict[str, object], reason: str) -> Outcome:
    """Mark a bundle whose run was interrupted. It proves nothing, whatever it holds."""
    return _unjudged(bundle, manifest, Status.INCONCLUSIVE, "aborted", reason)


def mark_broken(bundle: BundleWriter, manifest: dict[str, object], error: Exception) -> Outcome:
    """Mark a bundle whose run the rig itself could not finish."""
    return _unjudged(bundle, manifest, Status.BROKEN, "broken", f"{type(error).__name__}: {error}")


def _unjudged(bundle: BundleWriter, manifest: dict[str, object], status: Status, mark: str, reason: str) -> Outcome:
    begun = [name for name in _names(manifest) if (bundle.root / "arms" / name / "arm.json").exists()]
    bundle.manifest({**manifest, "arms": begun, mark: reason})
    seal(bundle.root)
    return _pronounce(bundle.root, manifest, status, f"{mark}: {reason}")


def leave_unjudged(root: Path, manifest: dict[str, object]) -> Outcome:
    """Say of a sealed and complete bundle that its judging was stopped; replaces a verdict that was just written."""
    reason = f"not judged: interrupted while judging; `ninelives-rig check {shlex.quote(str(root))}` judges it"
    return _pronounce(root, manifest, Status.INCONCLUSIVE, reason)


def _pronounce(root: Path, manifest: dict[str, object], status: Status, reason: str) -> Outcome:
    content: dict[str, object] = {
        "verdict": status.value,
        "reason": reason,
        "engine": manifest["engine"],
        "seed": manifest["seed"],
        "arms": [],
        "settings": manifest["settings"],
    }
    write_json(root / "verdict.json", content)
    return Outcome(status, content, (f"{status.value}  {reason}",))


def _names(manifest: dict[str, object]) -> list[str]:
    names = manifest["arms"]
    assert isinstance(names, list)
    return names


def assess(root: Path) -> Outcome:
    """Judge a sealed bundle and write its ``verdict.json``."""
    from ninelives_rig.judge import describe, judge  # pandas: a second that only judging has to wait for

    verdict = judge(root)
    return Outcome(verdict.status, verdict.as_dict(), tuple(describe(verdict)))


def leave(root: Path) -> Outcome:
    """Leave a sealed bundle to another judge."""
    return Outcome(Status.INCONCLUSIVE, {}, (f"{root} is not judged yet",))


def report(root: Path, display: Display) -> None:
    """Write the report beside the evidence. A report that fails is said, and changes no verdict."""
    try:
        importlib.import_module("ninelives_reports").render(root)
    except Exception as error:
        display.say(f"no report: {type(error).__name__}: {error}; try `ninelives-rig report {root}`")
