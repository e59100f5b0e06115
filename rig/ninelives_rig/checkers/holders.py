"""Whether nodes took only what they carry, stayed dead when declared dead, met the faults, and left nothing open."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import ATTEMPT_KEY, Facts
from ninelives_rig.evidence.spec import FAULT_EVENTS, ArmSpec
from ninelives_rig.verdict import Finding, Status


def check_versions(facts: Facts) -> list[Finding]:
    """Find rows that were written by another version of the flow than the one that their instance is pinned to."""
    problems = Problems("versions")
    rows = facts.rows[~facts.rows["step_id"].isin(facts.spec.waits)]
    joined = rows.merge(facts.arm.tables["instance"][["instance_id", "flow_version"]], on="instance_id")
    other = joined[joined["capability_version"] != joined["flow_version"]]
    columns = [*ATTEMPT_KEY, "token", "capability_version", "flow_version"]
    problems.add_rows("other_version", Status.FAIL, "{n} rows are of a version that nobody asked for.", other, columns)
    return problems.found


def check_sessions(facts: Facts) -> list[Finding]:
    """Find sessions whose heartbeat was accepted after their death: each one sets the expiry one TTL ahead."""
    problems = Problems("sessions")
    session = facts.arm.tables["session"]
    dead = session[session["dead_at"].notna()]
    expires_at = pd.to_datetime(dead["expires_at"], format="ISO8601", utc=True, errors="coerce")
    dead_at = pd.to_datetime(dead["dead_at"], format="ISO8601", utc=True, errors="coerce")
    ttl = pd.Timedelta(seconds=float(facts.spec.settings.get("ttl_s") or 0))
    revived = dead[expires_at > dead_at + ttl]
    columns = ["session_id", "dead_at", "expires_at"]
    problems.add_rows("revived", Status.FAIL, "{n} dead sessions were renewed.", revived, columns)
    buried = set(facts.events("process.buried")["child"])
    living = [f"process={child}" for child in sorted(buried - set(dead["node_name"]))]
    problems.add("undead", Status.INCONCLUSIVE, "{n} processes were buried, and no session of theirs is dead.", living)
    return problems.found


def check_disturbances(facts: Facts) -> list[Finding]:
    """Find planned faults, other than kills, that did not happen as often as planned."""
    problems = Problems("disturbances")
    found = facts.arm.history["event"].value_counts()
    lines = [
        f"{event}: planned {planned}, happened {int(found.get(event, 0))}"
        for event, planned in sorted(facts.spec.faults.items())
        if found.get(event, 0) < planned
    ]
    problems.add("missing", Status.INCONCLUSIVE, "{n} kinds of planned faults did not happen.", lines)
    problems.add("unhealed", Status.INCONCLUSIVE, "{n} kinds of faults were not undone as often.", _unhealed(facts))
    problems.add("unproved", Status.INCONCLUSIVE, "{n} faults are not proved to have happened.", _unproved(facts))
    return problems.found


def _unhealed(facts: Facts) -> Iterator[str]:
    """Name what lasts and was begun and undone unequally often: whatever followed was not judged in its shadow."""
    for told in FAULT_EVENTS.values():
        if told.over is not None:
            begun, over = len(facts.events(told.begun)), len(facts.events(told.over))
            if begun != over:
                yield f"{told.begun} {begun} times, {told.over} {over} times"


def _unproved(facts: Facts) -> Iterator[str]:
    """Name what was told of, and whose proof does not show it."""
    for told in FAULT_EVENTS.values():
        for event, pattern in ((told.begun, told.shows), (told.over, told.over_shows)):
            events = facts.events(event) if event else facts.arm.history.iloc[:0]
            for proof, t in zip(events["proof"], events["t"], strict=True):
                if not isinstance(proof, str) or not re.fullmatch(pattern, proof):
                    yield f"{event} at t={t}: {proof if isinstance(proof, str) else 'no proof'}"


def check_leftovers(facts: Facts) -> list[Finding]:
    """Find deadlocks, and transactions that a node has left open behind it."""
    problems = Problems("leftovers")
    for name, sentence in (
        ("deadlocks", "The server had to end {n} deadlocks: two operations take their locks in different orders."),
        ("idle_in_transaction", "{n} transactions of nodes are open behind the end, with their locks."),
    ):
        count = getattr(facts.spec, name)
        problems.add(name, Status.FAIL, sentence, [f"{name}={count}"], count=count)
    return problems.found


def _has_versions(spec: ArmSpec) -> bool:
    return spec.tokens and "versions" in spec.features


def _has_sessions(spec: ArmSpec) -> bool:
    return spec.tokens and "bury" in spec.features


def _has_faults(spec: ArmSpec) -> bool:
    return bool(spec.faults)


CHECKERS = (
    Checker(
        "versions",
        "Every row is of the version that its instance is pinned to.",
        ("other_version",),
        check_versions,
        _has_versions,
    ),
    Checker("sessions", "No session lived on after its death.", ("revived", "undead"), check_sessions, _has_sessions),
    Checker(
        "disturbances",
        "Every planned fault happened, is proved, and was undone.",
        ("missing", "unhealed", "unproved"),
        check_disturbances,
        _has_faults,
    ),
    Checker(
        "leftovers",
        "No deadlock happened, and no transaction was left open.",
        ("deadlocks", "idle_in_transaction"),
        check_leftovers,
    ),
)
