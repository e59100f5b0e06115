"""Whether the evidence is complete and the faults happened: without that, nothing else proves anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import SIGKILL, Facts, Kill
from ninelives_rig.checkers.recovery import recovery_of
from ninelives_rig.verdict import Finding, Status

UNSURE = Status.INCONCLUSIVE
# A node that the server turned away is reaped so much later at most.
_TURNED_AWAY_NS = 2_000_000_000
# Where the body had returned, so that its effect had happened.
_RETURNED = ("body.returned", "workload.returned")


def check_evidence(facts: Facts) -> list[Finding]:
    """Find evidence that is unreadable, empty, cut short without a kill, or has gaps."""
    problems = Problems("evidence")
    arm = facts.arm
    problems.add("damaged", UNSURE, "{n} pieces of evidence cannot be read.", map(str, arm.damage))
    frames = {"history": arm.history, "witness": facts.effects, "instances": arm.instances} | {
        f"tables/{name}": arm.tables[name] for name in ("instance", "step") if name in arm.tables
    }
    empty = [f"{name} has no rows" for name, frame in frames.items() if frame.empty]
    problems.add("empty", UNSURE, "{n} parts of the evidence are empty, which proves nothing.", empty)
    problems.add("witness_gap", UNSURE, "{n} witness files lost lines.", facts.witness_gaps)
    problems.add(
        "truncated",
        UNSURE,
        "{n} files end in the middle of a line although no kill ended their process.",
        _unexplained_tails(facts),
    )
    silent = facts.starts[~facts.starts["child_pid"].isin(arm.history["pid"])]
    silent = silent[[facts.exits.get(key) != SIGKILL for key in _keys(silent)]]
    problems.add_rows(
        "silent_process",
        UNSURE,
        "{n} nodes were started and left no history.",
        silent,
        ["child", "child_pid"],
    )
    return problems.found


def _keys(starts: pd.DataFrame) -> list[tuple[int, int]]:
    pairs = zip(starts["child_pid"], starts["child_start_time"], strict=True)
    return [(int(pid), int(start_time)) for pid, start_time in pairs]


def _unexplained_tails(facts: Facts) -> list[str]:
    killed = {
        str(child)
        for child, key in zip(facts.starts["child"], _keys(facts.starts), strict=True)
        if facts.exits.get(key) == SIGKILL
    }
    return [tail for tail in facts.arm.tails if tail.rpartition("/")[2].removesuffix(".jsonl") not in killed]


def check_population(facts: Facts) -> list[Finding]:
    """Find instances that nobody registered, that are not there in the asked number, or that nobody
    started.
    """
    problems = Problems("population")
    spec, registered = facts.spec, facts.registered
    if len(facts.arm.instances) != spec.flows or len(registered) != spec.flows:
        line = f"{len(registered)} different ids in {len(facts.arm.instances)} rows for {spec.flows} flows"
        problems.add("size", UNSURE, "The registered instances are not what was asked for.", [line])
    strangers = sorted(facts.states.keys() - registered)
    problems.add("unregistered", UNSURE, "{n} instances were never registered.", strangers)
    begun = set(facts.events("start.invoke", "start.ok", "start.info", "claimed")["instance_id"].dropna())
    untouched = sorted(registered - begun - facts.states.keys())
    problems.add("not_started", UNSURE, "Nobody tried to start {n} registered instances.", untouched)
    return problems.found


def check_kills(facts: Facts) -> list[Finding]:
    """Find kills that were planned and not delivered, or that are not proved from both sides."""
    problems = Problems("kills")
    spec, kills = facts.spec, facts.kills
    if not kills and (spec.kills_planned or not spec.faults):
        problems.add("none", UNSURE, "No process was killed.", [f"kills planned: {spec.kills_planned}"])
    scheduled = facts.arm.schedule
    if len(scheduled) < spec.kills_planned:
        line = f"{len(scheduled)} scheduled, {spec.kills_planned} planned"
        problems.add("underscheduled", UNSURE, "Fewer kills were scheduled than planned.", [line])
    receipts = {kill.kill_id for kill in kills}
    missing = scheduled[~scheduled["kill_id"].isin(receipts)]
    columns = ["kill_id", "instance_id", "step_id", "boundary"]
    problems.add_rows("no_receipt", UNSURE, "{n} scheduled kills have no receipt.", missing, columns)
    problems.add("misdirected", UNSURE, "{n} receipts are not of the scheduled kill.", _misdirected(facts))
    problems.add("unplaced", UNSURE, "{n} receipts are of a place where their process was not.", _unplaced(facts))
    unproved = [
        f"kill_id={kill.kill_id} pid={kill.pid} exit={facts.exits.get((kill.pid, kill.start_time))}"
        for kill in kills
        if not kill.proved
    ]
    problems.add("no_exit", UNSURE, "{n} receipts have no process that was reaped with signal 9.", unproved)
    deaths = Counter((kill.pid, kill.start_time) for kill in kills)
    twice = [f"pid={pid} left {n} receipts" for (pid, _), n in deaths.items() if n > 1]
    problems.add("shared_death", UNSURE, "{n} processes died once for several receipts.", twice)
    stray = [
        f"pid={pid}" for (pid, start), code in facts.exits.items() if code == SIGKILL and (pid, start) not in deaths
    ]
    problems.add("no_receipt_for_exit", UNSURE, "{n} processes died of signal 9 without a receipt.", stray)
    if any(kill.proved for kill in kills) and not recovery_of(facts).recovered:
        problems.add("nothing_recovered", UNSURE, "Nothing was recovered.", [f"{len(kills)} kills"])
    return problems.found


def _misdirected(facts: Facts) -> list[str]:
    """Name receipts that no kill of the schedule explains; step 0 and no instance stand for any."""
    schedule = {str(row["kill_id"]): row for row in facts.arm.schedule.to_dict("records")}
    return [
        f"kill_id={kill.kill_id} at {kill.boundary} of {kill.instance_id}, {reason}"
        for kill in facts.kills
        for reason in _differences(kill, schedule.get(kill.kill_id))
    ]


def _unplaced(facts: Facts) -> Iterator[str]:
    """Name receipts of a token that their process never claimed, or of a body that returned without an effect.

    A start is told behind its boundary, so that a process that dies there was not seen to hold anything.
    """
    columns = ["instance_id", "scope", "step_id", "attempt", "token", "pid"]
    effects = set(facts.effects[columns].itertuples(index=False, name=None))
    for kill in facts.kills:
        line = f"kill_id={kill.kill_id} at {kill.boundary} of {kill.instance_id}"
        held = (kill.instance_id, kill.token, kill.pid) in facts.holds
        if facts.spec.tokens and kill.instance_id and not held and kill.boundary != "start.committed":
            yield f"{line}: token {kill.token} was not claimed by pid {kill.pid}"
        place = (kill.instance_id, kill.scope, kill.step_id, kill.attempt, kill.token, kill.pid)
        if kill.boundary in _RETURNED and facts.spec.effect != "transactional" and place not in effects:
            yield f"{line}: attempt {kill.attempt} of step {kill.step_id} had no effect"


def _differences(kill: Kill, planned: dict[object, object] | None) -> Iterator[str]:
    if planned is None:
        yield "which was not scheduled"
        return
    if planned["boundary"] != kill.boundary:
        yield f"scheduled at {planned['boundary']}"
    if isinstance(planned["instance_id"], str) and planned["instance_id"] != kill.instance_id:
        yield f"scheduled for {planned['instance_id']}"
    if isinstance(planned["step_id"], int) and planned["step_id"] not in (0, kill.step_id):
        yield f"scheduled at step {planned['step_id']}, not {kill.step_id}"
    if isinstance(planned["role"], str) and planned["role"] != kill.role:
        yield f"scheduled for a node of the role {planned['role']}"
    if isinstance(planned["token_min"], int) and planned["token_min"] > kill.token:
        yield f"scheduled for token {planned['token_min']} or more, not {kill.token}"


def check_processes(facts: Facts) -> list[Finding]:
    """Find nodes that were never reaped, or that ended in a way that no kill explains."""
    problems = Problems("processes")
    started = facts.starts
    unreaped = started[[key not in facts.exits for key in _keys(started)]]
    columns = ["child", "child_pid"]
    problems.add_rows("unreaped", UNSURE, "{n} nodes were started and never reaped.", unreaped, columns)
    refused = _never_opened(facts)
    crashed = [
        f"pid={pid} exit={code}"
        for (pid, _), code in facts.exits.items()
        if code not in (0, SIGKILL) and pid not in refused
    ]
    problems.add("crashed", UNSURE, "{n} nodes ended by themselves; read their logs.", crashed)
    return problems.found


def _never_opened(facts: Facts) -> frozenset[int]:
    """Return who ended without having become a node, while a fault of the whole server lasted: it was turned away."""
    opened = set(facts.events("node.opened")["pid"])
    lasting = [(fault.t, fault.over_t) for fault in facts.faults if not fault.pid and fault.over_t is not None]
    return frozenset(
        pid
        for pid, t in facts.death_t.items()
        if pid not in opened and any(begun < t < over + _TURNED_AWAY_NS for begun, over in lasting)
    )


def check_convergence(facts: Facts) -> list[Finding]:
    """Find an arm whose time ran out. Stranded instances are the business of ``lost``."""
    problems = Problems("convergence")
    if not facts.spec.converged:
        line = f"converge_timeout_s={facts.spec.settings.get('converge_timeout_s')}"
        if facts.spec.progressing:
            problems.add("timed_out", UNSURE, "Time ran out while instances still finished.", [line])
        else:
            problems.add("stranded", Status.FAIL, "Instances stood still with work left.", [line])
    return problems.found


CHECKERS = (
    Checker(
        "evidence",
        "The evidence is complete and readable.",
        ("damaged", "empty", "witness_gap", "truncated", "silent_process"),
        check_evidence,
    ),
    Checker(
        "population",
        "Exactly the registered instances took part.",
        ("size", "unregistered", "not_started"),
        check_population,
    ),
    Checker(
        "kills",
        "Every scheduled kill has a receipt, and its process was reaped with signal 9.",
        (
            "none",
            "underscheduled",
            "no_receipt",
            "misdirected",
            "unplaced",
            "no_exit",
            "shared_death",
            "no_receipt_for_exit",
            "nothing_recovered",
        ),
        check_kills,
    ),
    Checker("processes", "Every node ended by order or by a kill.", ("unreaped", "crashed"), check_processes),
    Checker("convergence", "The arm came to rest in time.", ("timed_out", "stranded"), check_convergence),
)
