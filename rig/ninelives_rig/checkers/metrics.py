"""The figures of an arm that ``verdict.json`` carries. Figures never gate: the findings do."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

from ninelives_rig.checkers.accounting import DUPLICATES
from ninelives_rig.checkers.facts import TERMINAL, Facts
from ninelives_rig.checkers.recovery import fault_resume_s, recovery_of
from ninelives_rig.evidence.spec import LOST_ANSWER
from ninelives_rig.percentile import summarize


def count_in_doubt(facts: Facts) -> tuple[int, int]:
    """Count intents that another holder found without an outcome, and intents without one at the end."""
    intent = facts.arm.tables.get("intent")
    if intent is None:
        return 0, 0
    return int(intent["doubted_token"].notna().sum()), int(intent["outcome"].isna().sum())


@lru_cache(maxsize=1)
def measure(facts: Facts) -> dict[str, Any]:
    """Return every figure of the arm under its name in ``verdict.json``."""
    spec, states = facts.spec, facts.states
    classes = facts.classified["class"].value_counts()
    recovery = recovery_of(facts)
    in_doubt, in_doubt_open = count_in_doubt(facts)
    proved = [kill for kill in facts.kills if kill.proved]
    return {
        "effect": spec.effect,
        "position": spec.position,
        "flows": spec.flows,
        "completed": sum(state == "Completed" for state in states.values()),
        "lost": sum(state not in TERMINAL for state in states.values()),
        "never_opened": len(facts.registered - states.keys()),
        "orphan_effects": int((~facts.effects["instance_id"].isin(states.keys())).sum()),
        "kills": len(facts.kills),
        "kills_proved": len(proved),
        "kills_by_role": dict(sorted(Counter(kill.role for kill in proved).items())),
        "kills_by_boundary": dict(sorted(Counter(kill.boundary for kill in proved).items())),
        "recovered": recovery.recovered,
        "takeovers": int((facts.claims["takeover"] == True).sum()),  # noqa: E712  (a nullable column)
        "duplicates": {name: int(classes.get(name, 0)) for name in DUPLICATES},
        "window_by_living": _count_by_living(facts),
        "retried": int(classes.get("retried", 0)),
        "zombie_effects": int(facts.classified["zombie"].sum()),
        "stale_writes_accepted": count_stale_rows(facts),
        "fault": spec.fault,
        "fault_receipts": count_fault_receipts(facts),
        "fault_resume_s": summarize(fault_resume_s(facts)).as_dict(),
        "deadlocks": spec.deadlocks,
        "uncommitted": int(classes.get("uncommitted", 0)),
        "in_doubt": in_doubt,
        "in_doubt_open": in_doubt_open,
        "effects": len(facts.effects),
        "steps_completed": count_steps_completed(facts),
        "resume_s": summarize(recovery.resume_s).as_dict(),
        "next_effect_s": summarize(recovery.next_effect_s).as_dict(),
        "truncated_lines": len(facts.arm.tails),
        "settings": dict(spec.settings),
    }


def count_stale_rows(facts: Facts) -> int:
    """Count rows that were accepted under a token after a row under a greater one."""
    rows = facts.rows
    if not facts.spec.tokens:
        return 0
    return int((rows["token"] < rows.groupby("instance_id")["token"].cummax()).sum())


def count_fault_receipts(facts: Facts) -> int:
    """Count what proves the arm's fault: kills that were reaped, else faults that the coordinator saw happen."""
    if facts.spec.faults:
        told = facts.events(*facts.spec.faults)
        return int(told["proof"].notna().sum()) + len(facts.events(LOST_ANSWER))
    return sum(kill.proved for kill in facts.kills)


def _count_by_living(facts: Facts) -> int:
    """Count window duplicates of processes that were neither killed nor stopped: a lease was lost without a fault."""
    table = facts.classified
    pids = table.loc[table["class"] == "documented_window", "pid"]
    troubled = {kill.pid for kill in facts.kills if kill.proved} | facts.frozen_t.keys()
    return int((~pids.isin(troubled)).sum())


def count_steps_completed(facts: Facts) -> int:
    """Count committed steps; without a journal, the steps of the instances that the engine calls
    completed.
    """
    if facts.spec.journal:
        return len(facts.effective)
    return len(facts.spec.steps) * sum(state == "Completed" for state in facts.states.values())


def no_measures(reason: str) -> dict[str, Any]:
    """Return the same figures, all unknown, for an arm that cannot be measured."""
    names = [
        *("flows", "completed", "lost", "never_opened", "orphan_effects", "kills", "kills_proved", "recovered"),
        *("in_doubt", "in_doubt_open", "effects", "steps_completed"),
    ]
    none = summarize([]).as_dict()
    return {
        **dict.fromkeys(names),
        "duplicates": dict.fromkeys(DUPLICATES),
        "resume_s": none,
        "next_effect_s": none,
        "settings": {},
        "unmeasured": reason,
    }
