"""The sections of faults other than kills: what proves each, what came of it, and the catalogue of failures."""

from __future__ import annotations

from collections.abc import Sequence

from ninelives_reports.load import ArmView, View, record
from ninelives_reports.text import UNKNOWN, plain, seconds, setting, sheet, whole
from ninelives_rig.evidence.spec import FAULT_EVENTS, LOST_ANSWER

CAMPAIGN = "faults"

CATALOGUE: Sequence[tuple[str, str, str, tuple[str, ...]]] = (
    (
        "a node crashes in a step",
        "its session's lock is free; a neighbour waits for it",
        "resume from the last commit; the step in flight runs again",
        ("kill", "kill-recovery", "sweepers", "terminate"),
    ),
    (
        "a partition, a zombie",
        "TTL of the session; later the fence",
        "the zombie's writes are refused, it aborts and compensates nothing",
        (
            "freeze",
            "freeze-recovery",
            "partition",
            "partition-one-way",
            "late-delivery",
            "freeze-ttl-5",
            "freeze-ttl-30",
            "partition-ttl-5",
            "partition-ttl-30",
            "starved",
        ),
    ),
    (
        "a step blocks its process",
        "not at all: the heartbeat has a thread of its own",
        "the lease is kept; the process's other flows wait",
        ("blocked",),
    ),
    (
        "answers of the journal are lost",
        "the connection ends behind COMMIT",
        "the same operation again: one row, one effect",
        ("lost-answers", "partition-one-way", "backends-ended"),
    ),
    (
        "the journal is down",
        "write failure, no connection",
        "new starts are refused with a type; flows in flight go on when it is back",
        ("server-crash", "server-away", "server-restart", "server-freeze"),
    ),
    (
        "the journal refuses",
        "SQLSTATE 25006, 57014, 53300",
        "the batch is sent again; nothing is undone because of it",
        ("read-only", "impatient", "no-connections", "old-snapshot"),
    ),
)
"""Failures, how the runtime detects each, what it then does, and the arms of the campaign that inflict it."""

NOT_INFLICTED: Sequence[tuple[str, str]] = (
    ("the lease store is down", "leases are rows of the journal's own database; a store of their own is not built yet"),
    ("the broker is down", "there is no outbox yet"),
    ("a poison message", "no consumer yet; an instance that kills its nodes is taken alone"),
    ("clock skew", "no node's clock takes part in a decision; clocks that are wrong were not tried"),
    ("a deadline passes while the node is dead", "`tests/node` shows it, no arm does"),
    ("compensation is exhausted", "compensation is not built yet"),
)
"""Failures of the catalogue that no arm inflicts, and why."""

_PERCENTILES = ("p50", "p99", "max")


def write_faults(view: View, level: str = "##") -> list[str]:
    """Write what each arm's fault came to; nothing for a run that has only kills."""
    arms = [arm for arm in view.arms if _fault(arm) not in ("kill", UNKNOWN) or view.campaign == CAMPAIGN]
    if not arms:
        return []
    lines = [f"{level} The faults", "", *_INTRO, ""]
    head = ["arm", "fault", "TTL", "proved", "one of the proofs", "stale writes accepted", "zombie effects"]
    head += ["flows hit", "resume p50", "resume p99", "resume max", "verdict"]
    lines += sheet(head, [_row(arm) for arm in arms])
    return [*lines, "", *_OUTRO]


_INTRO = (
    "*Proved* counts the faults whose receipt shows them: for kills the receipt and the exit status, for all others",
    "the `proof` in the coordinator's history, which says what was seen, not what was intended.",
)
_OUTRO = (
    "*Resume* counts from each fault (one of the whole server: from its return) to the end of each flow that it took",
    "from its holder or kept waiting. A *zombie effect* is one outside the database under a token that was not",
    "the newest any more; no store can fence it off. A *stale write* is a journal row under such a token.",
)


def _row(arm: ArmView) -> list[str]:
    waits = record(arm.measure("fault_resume_s"))
    if not waits.get("n"):
        waits = record(arm.measure("resume_s"))
    ttl_s = arm.declared.get("ttl_s")
    return [
        arm.name,
        _fault(arm),
        f"{setting(ttl_s)} s" if ttl_s is not None else UNKNOWN,
        whole(arm.count("fault_receipts")),
        _proof(arm),
        whole(arm.count("stale_writes_accepted")),
        whole(arm.count("zombie_effects")),
        whole(waits.get("n")),
        *(seconds(waits.get(name)) for name in _PERCENTILES),
        arm.status,
    ]


def _fault(arm: ArmView) -> str:
    return setting(arm.measure("fault"))


def _proof(arm: ArmView) -> str:
    """Return the proof of the first fault: of its end where it lasts, because that says what it did."""
    if arm.facts is None:
        return UNKNOWN
    told = [one for one in FAULT_EVENTS.values() if len(arm.facts.events(one.begun))]
    lost = len(arm.facts.events(LOST_ANSWER))
    if not told and lost:
        return f"{whole(lost)} answers were withheld from nodes, each told by the node itself"
    if not told:
        return "receipt and exit status -9" if arm.facts.kills else UNKNOWN
    events = arm.facts.events(told[0].over or told[0].begun)
    begun = arm.facts.events(told[0].begun)
    proofs = [*begun["proof"].head(1), *(events["proof"].head(1) if told[0].over else [])]
    return "; ".join(plain(proof) for proof in proofs if isinstance(proof, str)) or UNKNOWN


def write_catalogue(view: View) -> list[str]:
    """Write the failure catalogue row by row; only for the campaign that inflicts it."""
    if view.campaign != CAMPAIGN:
        return []
    arms = {arm.name: arm for arm in view.arms}
    rows = []
    for failure, detected, answer, names in CATALOGUE:
        shown = [arms[name] for name in names if name in arms]
        seen = ", ".join(f"{arm.name} {arm.status}" for arm in shown) or "no arm of this run"
        rows.append([failure, detected, answer, seen, _seen(shown)])
    lines = ["## The catalogue of failures", ""]
    lines += sheet(["failure", "how it is detected", "what the runtime does", "arms", "seen"], rows)
    lines += ["", "Not inflicted by any arm:", ""]
    return [*lines, *(f"- {failure}: {reason}." for failure, reason in NOT_INFLICTED)]


def _seen(arms: Sequence[ArmView]) -> str:
    def total(*names: str) -> int:
        return sum(arm.count(*names) or 0 for arm in arms)

    if not arms:
        return UNKNOWN
    return (
        f"{whole(total('fault_receipts'))} faults proved, {whole(total('lost'))} flows lost,"
        f" {whole(total('duplicates', 'against_guarantee'))} effects against the guarantee,"
        f" {whole(total('stale_writes_accepted'))} stale writes, {whole(total('zombie_effects'))} zombie effects"
    )


__all__ = ["CATALOGUE", "NOT_INFLICTED", "write_catalogue", "write_faults"]
