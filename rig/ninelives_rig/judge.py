"""Judges a bundle of evidence. Needs nothing but its files, so that an old bundle can be judged again at
any time.
"""

from __future__ import annotations

import json as json_module
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from ninelives_rig.checkers import CHECKERS, Checker
from ninelives_rig.checkers.facts import Facts
from ninelives_rig.checkers.metrics import measure, no_measures
from ninelives_rig.evidence.bundle import Arm, Bundle, load
from ninelives_rig.evidence.seal import SealReport
from ninelives_rig.evidence.spec import RUN_KEYS, BundleUnreadable
from ninelives_rig.verdict import ArmVerdict, Finding, Status, Verdict

VERDICT_NAME = "verdict.json"
MANIFEST_KEYS = ("campaign", "engine", "seed", "commit", "dirty", "started_at", "environment", "settings", "arms")
BUNDLE_FINDINGS = (
    "bundle.unreadable",
    "bundle.arm_unreadable",
    "bundle.no_arms",
    "manifest.incomplete",
    "manifest.aborted",
    "manifest.broken",
    "manifest.other_run",
    "manifest.contradicted",
    "seal.none",
    "seal.broken",
)
LINES_MAX = 5


def judge(bundle_path: Path, *, checkers: Sequence[Checker] = CHECKERS) -> Verdict:
    """Judge the bundle at ``bundle_path``, write ``verdict.json`` into it and return the verdict.

    Evidence that is missing or unreadable is part of the verdict and raises nothing; ``OSError`` means that
    the verdict could not be written.
    """
    verdict = assess(bundle_path, checkers=checkers)
    if bundle_path.is_dir():
        target = bundle_path / VERDICT_NAME
        draft = target.with_suffix(".json.part")
        draft.write_bytes(orjson.dumps(verdict.as_dict(), option=orjson.OPT_INDENT_2, default=str) + b"\n")
        draft.replace(target)
    return verdict


def assess(bundle_path: Path, *, checkers: Sequence[Checker] = CHECKERS) -> Verdict:
    """Judge the bundle and write nothing."""
    try:
        bundle = load(bundle_path)
    except BundleUnreadable as error:
        finding = Finding("bundle.unreadable", Status.BROKEN, 1, f"The bundle cannot be judged: {error}.")
        return Verdict(None, None, None, None, {}, (), (finding,))
    manifest = bundle.manifest
    loaded = {arm.spec.name: arm for arm in bundle.arms}
    names = [*manifest["arms"], *(name for name in bundle.broken if name not in manifest["arms"])]
    settings = manifest.get("settings")
    return Verdict(
        campaign=manifest.get("campaign"),
        engine=manifest.get("engine"),
        seed=manifest.get("seed"),
        commit=manifest.get("commit"),
        settings=settings if isinstance(settings, dict) else {},
        arms=tuple(
            _judge_arm(loaded[name], checkers) if name in loaded else _broken_arm(name, bundle.broken) for name in names
        ),
        findings=tuple(bundle_findings(bundle)),
    )


def _broken_arm(name: str, broken: dict[str, str] | Any) -> ArmVerdict:
    reason = broken.get(name, f"arms/{name}/arm.json declares another name")
    finding = Finding("bundle.arm_unreadable", Status.BROKEN, 1, f"The arm cannot be judged: {reason}.", arm=name)
    return ArmVerdict(name, no_measures(reason), (finding,))


def _judge_arm(arm: Arm, checkers: Sequence[Checker]) -> ArmVerdict:
    facts = Facts(arm)
    findings = [finding for checker in checkers for finding in _run(checker, facts)]
    try:
        metrics = dict(measure(facts))
    except Exception as error:
        metrics = no_measures(repr(error))
        findings.append(_raised("metrics", error, arm.spec.name))
    metrics["not_applicable"] = [checker.name for checker in checkers if not checker.applies(arm.spec)]
    return ArmVerdict(arm.spec.name, metrics, tuple(findings))


def _run(checker: Checker, facts: Facts) -> list[Finding]:
    """Run one checker; whatever it raises makes the arm inconclusive and the other checkers still run."""
    if not checker.applies(facts.spec):
        return []
    name = facts.spec.name
    try:
        problems = checker.run(facts)
    except Exception as error:
        return [_raised(checker.name, error, name)]
    if not problems:
        return [Finding(checker.name, Status.PASS, 0, checker.promise, arm=name)]
    return [_placed(finding, name, facts.evidence_lost) for finding in problems]


def _placed(finding: Finding, arm: str, evidence_lost: bool) -> Finding:
    """Put the finding into its arm; what rests on missing evidence is unsure where evidence is known to be
    lost.
    """
    status, sentence = finding.status, finding.sentence
    if evidence_lost and finding.from_absence and status is Status.FAIL:
        status = Status.INCONCLUSIVE
        sentence += " Evidence was lost, so that this proves nothing."
    return Finding(finding.name, status, finding.count, sentence, finding.lines, arm, finding.from_absence)


def _raised(name: str, error: Exception, arm: str) -> Finding:
    where = traceback.extract_tb(error.__traceback__)[-1]
    sentence = f"The checker {name} raised {error!r}; report it with this bundle."
    line = f"{Path(where.filename).name}:{where.lineno} in {where.name}"
    return Finding(f"{name}.raised", Status.INCONCLUSIVE, 1, sentence, (line,), arm)


def bundle_findings(bundle: Bundle) -> list[Finding]:
    """Judge what belongs to no single arm: the seal, the manifest, and whether arms are of this run."""
    findings = _seal_findings(bundle.seal)
    manifest = bundle.manifest
    absent = [key for key in MANIFEST_KEYS if key not in manifest]
    absent += [key for key in ("environment", "settings") if key in manifest and not manifest[key]]
    if absent:
        sentence = f"The manifest does not say: {', '.join(absent)}."
        findings.append(Finding("manifest.incomplete", Status.INCONCLUSIVE, len(absent), sentence))
    for mark, status in (("aborted", Status.INCONCLUSIVE), ("broken", Status.BROKEN)):
        if manifest.get(mark):
            sentence = f"The run did not come to its end ({mark}: {manifest[mark]}); run the campaign again."
            findings.append(Finding(f"manifest.{mark}", status, 1, sentence))
    if not any(manifest.get(mark) for mark in ("aborted", "broken")):
        findings += _identity_findings(bundle)
    if not manifest["arms"]:
        findings.append(Finding("bundle.no_arms", Status.INCONCLUSIVE, 1, "The manifest names no arm."))
    return findings


def _identity_findings(bundle: Bundle) -> list[Finding]:
    """Compare the manifest with what each arm repeats of it, and with itself."""
    manifest, findings = bundle.manifest, []
    lines = []
    for arm in bundle.arms:
        said = arm.spec.run or {}
        lines += [
            f"arm {arm.spec.name}: {key} is {said.get(key)!r}, not {manifest.get(key)!r}"
            for key in RUN_KEYS
            if said.get(key) != manifest.get(key) or type(said.get(key)) is not type(manifest.get(key))
        ]
    if lines:
        sentence = f"{len(lines)} fields of the manifest are not as an arm has them. First: {lines[0]}."
        findings.append(
            Finding("manifest.other_run", Status.INCONCLUSIVE, len(lines), sentence, tuple(lines[:LINES_MAX]))
        )
    lines = list(_contradictions(bundle))
    if lines:
        sentence = f"The manifest contradicts itself or its first arm. First: {lines[0]}."
        findings.append(
            Finding("manifest.contradicted", Status.INCONCLUSIVE, len(lines), sentence, tuple(lines[:LINES_MAX]))
        )
    return findings


def _contradictions(bundle: Bundle) -> Iterator[str]:
    """The settings name the server's twice, and the first arm's measures once more."""
    settings = bundle.manifest.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    durability = settings.get("durability")
    durability = durability if isinstance(durability, dict) else {}
    others: list[tuple[str, object]] = list(durability.items())
    first = next((arm.spec for arm in bundle.arms if [arm.spec.name] == bundle.manifest["arms"][:1]), None)
    if first is not None:
        others += [*first.settings.items(), ("service_s", first.service_s)]
    for name, value in others:
        if name in settings and settings[name] != value:
            yield f"{name} is {settings[name]!r} and {value!r}"
    if durability.get("fsync") == "off" and not durability.get("weak"):
        yield "fsync is off, and nothing is said to be weak"


def _seal_findings(seal: SealReport) -> list[Finding]:
    if seal.intact:
        return [Finding("seal", Status.PASS, 0, "The evidence is as it was sealed.")]
    if not seal.sealed:
        sentence = "The bundle was never sealed: the run did not come to its end. Run the campaign again."
        return [Finding("seal.none", Status.INCONCLUSIVE, 1, sentence)]
    lines = [f"{name} was changed" for name in seal.changed]
    lines += [f"{name} is missing" for name in seal.missing]
    lines += [f"{name} was added" for name in seal.added]
    if not seal.readable:
        lines.append("digests.json cannot be read")
    sentence = f"{len(lines)} files are not as they were sealed. First: {lines[0]}."
    return [Finding("seal.broken", Status.BROKEN, len(lines), sentence, tuple(lines[:LINES_MAX]))]


def check_command(path: Path, json: bool) -> int:
    """Judge the bundle at ``path``, print the verdict (as JSON or for people) and return the exit code."""
    try:
        verdict = judge(path)
    except OSError as error:
        print(f"{path}: the verdict could not be written: {error}", file=sys.stderr)
        return Status.BROKEN.exit_code
    if json:
        print(json_module.dumps(verdict.as_dict(), indent=2, default=str))
    else:
        print("\n".join(describe(verdict)))
    return verdict.status.exit_code


def describe(verdict: Verdict) -> list[str]:
    """Write the verdict for people, one line a statement; what passed is only counted."""
    lines = [f"{verdict.status.value}  engine {verdict.engine}, campaign {verdict.campaign}, seed {verdict.seed}"]
    for finding in verdict.findings:
        lines += _describe_finding(finding, "  ")
    for arm in verdict.arms:
        lines.append(f"  {arm.status.value}  {arm.name}: {_describe_metrics(arm.metrics)}")
        passed = sum(finding.status is Status.PASS for finding in arm.findings)
        lines.append(f"    {passed} of {len({finding.checker for finding in arm.findings})} checkers passed")
        for finding in arm.findings:
            lines += _describe_finding(finding, "    ")
    return lines


def _describe_finding(finding: Finding, indent: str) -> list[str]:
    if finding.status is Status.PASS:
        return []
    head = f"{indent}{finding.status.value}  {finding.name}: {finding.sentence}"
    return [head, *(f"{indent}    {line}" for line in finding.lines[1:])]


def _describe_metrics(metrics: Any) -> str:
    duplicates, resume = metrics["duplicates"], metrics["resume_s"]
    figures = {
        "flows": metrics["flows"],
        "completed": metrics["completed"],
        "kills proved": metrics["kills_proved"],
        "recovered": metrics["recovered"],
        **{name.replace("_", " "): count for name, count in duplicates.items()},
        "resume p99 s": resume["p99"],
    }
    return ", ".join(f"{name} {value}" for name, value in figures.items())
