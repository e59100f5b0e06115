"""Whether the arm's declaration is the one that its evidence was recorded under, and leaves no part of it unjudged."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from ninelives_rig.checkers.base import Checker, Problems
from ninelives_rig.checkers.facts import Facts
from ninelives_rig.evidence.ids import expected_id
from ninelives_rig.evidence.spec import FAULT_EVENTS, LOST_ANSWER
from ninelives_rig.verdict import Finding, Status

UNSURE = Status.INCONCLUSIVE
_FAULTS = (*(told.begun for told in FAULT_EVENTS.values()), LOST_ANSWER)
_POSITIONS = ("before-commit", "after-commit")
_TOKENED = ("lease", "wake", "intent", "session")
_INDEX_MAX = 1 << 24


def check_declaration(facts: Facts) -> list[Finding]:
    """Find evidence that the declaration denies, and counts in it that the evidence contradicts."""
    problems = Problems("declaration")
    problems.add("reduced", UNSURE, "{n} parts of the evidence are not declared.", _reduced(facts))
    problems.add("nodes", UNSURE, "Other nodes were started than declared.", _nodes(facts))
    problems.add("instances", UNSURE, "{n} instances are not those of seed, arm and index.", _instances(facts))
    problems.add("kills", UNSURE, "{n} planned kills are not as declared.", _kills(facts))
    problems.add("ttl", UNSURE, "{n} sessions were opened for less than the TTL.", _ttl(facts))
    return problems.found


def _reduced(facts: Facts) -> Iterator[str]:
    """What is declared away is left out of the judgement, so nothing of it may be there."""
    spec, tables = facts.spec, facts.arm.tables
    if not spec.journal:
        yield from (f"tables/{name} without a journal" for name in sorted(tables.keys() - {"instance"}))
    if not spec.tokens:
        yield from (f"tables/{name} without tokens" for name in _TOKENED if name in tables)
        if (facts.effects["token"] > 0).any() or (facts.claims["token"] > 0).any():
            yield "tokens were told of, and none are declared"
    if not spec.intents and "intent" in tables:
        yield "tables/intent without intents"
    uses = {"intent": spec.effect == "at_most_once", "ledger": spec.effect == "transactional",
            "signal": bool(spec.waits)}  # fmt: skip
    yield from (f"tables/{name} has rows that no step of the arm can have written"
                for name, used in uses.items() if not used and name in tables and len(tables[name]))  # fmt: skip
    if spec.effect == "transactional" and len(facts.arm.witness):
        yield "the witness has effects, and they are declared transactional"
    if "session" in tables and "bury" not in spec.features:
        yield "tables/session without sessions that can be buried"
    versioned = "versions" in spec.features or not spec.tokens
    if not versioned and tables["instance"].get("flow_version", pd.Series()).notna().any():
        yield "tables/instance with versions that are not declared"
    if not spec.pauses and len(facts.events("pause.invoke")):
        yield "instances were paused, and no pause is declared"
    if not spec.sequential:
        yield "the steps are declared to be no sequence, and no engine runs anything else"
    yield from _faults(facts)


def _faults(facts: Facts) -> Iterator[str]:
    """Each disturbance happens as often as it was planned, and each lost answer is one of those planned."""
    found = facts.arm.history["event"].value_counts()
    for event in _FAULTS:
        happened, planned = int(found.get(event, 0)), facts.spec.faults.get(event, 0)
        if happened > planned and not (event == LOST_ANSWER and planned):
            yield f"{event}: planned {planned}, happened {happened}"
    lost = facts.events(LOST_ANSWER)
    told = {f"{statement} {when}" for statement, when in zip(lost["statement"], lost["when"], strict=True)}
    yield from (f"lost answer {one}" for one in sorted(told ^ facts.spec.lost_answers))


def _nodes(facts: Facts) -> Iterator[str]:
    spec = facts.spec
    roles = facts.starts["role"].value_counts()
    asked = {"worker": spec.settings["workers"], "recovery": spec.settings["recovery_nodes"]}
    for role, wanted in asked.items():
        places = {_slot(str(child)) for child in facts.starts[facts.starts["role"] == role]["child"]}
        if len(places) != wanted:
            yield f"{len(places)} places of the role {role} were filled, {wanted} are declared"
    yield from (f"a node of the role {role}" for role in sorted(set(roles.index) - asked.keys()))
    wanted = sum(value or 0 for value in asked.values()) + spec.restarts
    if len(facts.starts) != wanted:
        yield f"{len(facts.starts)} nodes were started, {wanted} are declared"


def _slot(child: str) -> str:
    """worker-1.3 is the third process in the place worker-1."""
    return re.sub(r"\.\d+$", "", child)


def _instances(facts: Facts) -> Iterator[str]:
    seed, instances = facts.arm.seed, facts.arm.instances
    if type(seed) is not int:
        yield f"seed={seed}"
        return
    for place, (index, one) in enumerate(zip(instances["index"], instances["instance_id"], strict=True)):
        if index != place or index >= _INDEX_MAX or one != expected_id(seed, facts.spec.name, index):
            yield f"index={index} instance_id={one}"
    invoked = facts.events("start.invoke")
    coordinators = set(invoked.loc[invoked["process"] == "coordinator", "instance_id"])
    workers = set(invoked.loc[invoked["process"] != "coordinator", "instance_id"])
    for one, who in zip(instances["instance_id"], instances["started_by"], strict=True):
        others = {"coordinator": workers, "worker": coordinators}.get(who)
        if others is None or one in others:
            yield f"instance_id={one} is to be started by the {who}, and another did"


def _kills(facts: Facts) -> Iterator[str]:
    spec, schedule = facts.spec, facts.arm.schedule
    if len(schedule) > spec.kills_planned:
        yield f"{len(schedule)} scheduled, {spec.kills_planned} planned"
    promised = spec.expect.get("kills", spec.kills_planned)
    if promised != spec.kills_planned:
        yield f"{spec.kills_planned} planned, {promised} promised"
    unknown = sorted(set(schedule["boundary"]) - spec.boundaries) if spec.boundaries else []
    yield from (f"boundary {name}, which the engine does not have" for name in unknown)
    known = {spec.position, *_POSITIONS, *spec.boundaries}
    yield from (f"position {name}, which nobody knows" for name in sorted(set(schedule["position"]) - known))
    if set(schedule["position"]) != {spec.position} and schedule["position"].nunique() == 1:
        yield f"all are at {schedule['position'][0]}, and the arm is of the position {spec.position}"
    places = schedule.groupby("position")["boundary"].nunique()
    yield from (f"position {name} at {n} boundaries" for name, n in places.items() if n > 1)
    named = schedule[schedule["position"].isin(spec.boundaries) & (schedule["position"] != schedule["boundary"])]
    yield from (f"position {name} at another boundary" for name in named["position"])
    taken = schedule[schedule["instance_id"].notna() & ~schedule["instance_id"].isin(facts.registered)]
    yield from (f"instance_id={one} is not registered" for one in taken["instance_id"])


def _ttl(facts: Facts) -> Iterator[str]:
    if "session" not in facts.arm.tables or not facts.spec.settings.get("ttl_s"):
        return
    session = facts.arm.tables["session"]
    opened_at, expires_at = (
        pd.to_datetime(session[name], format="ISO8601", utc=True, errors="coerce")
        for name in ("opened_at", "expires_at")
    )
    ttl = pd.Timedelta(seconds=float(facts.spec.settings["ttl_s"]))
    short = session[(expires_at < opened_at + ttl) | expires_at.isna()]
    yield from (f"session_id={one}" for one in short["session_id"])


CHECKERS = (
    Checker(
        "declaration",
        "The declaration is that of the evidence.",
        ("reduced", "nodes", "instances", "kills", "ttl"),
        check_declaration,
    ),
)
