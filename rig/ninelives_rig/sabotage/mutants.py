"""Every mutant: what it takes away, in which scenario it is planted, and which checker has to catch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ninelives_rig.evidence.seal import seal
from ninelives_rig.verdict import Status


@dataclass(frozen=True)
class Mutant:
    """One deliberate defect.

    ``removes`` says which guard is gone, with the protocol's invariant and the model's number in ``protocol``.
    ``checker`` has to find fault with the evidence, with findings of ``status``; nothing else counts as caught.
    ``delivery`` is how kills are delivered; ``spoil`` changes the evidence of the unharmed scenario instead.
    """

    name: str
    removes: str
    protocol: str
    scenario: str
    checker: str
    status: Status = Status.FAIL
    delivery: str = "sigkill"
    planted: bool = True
    spoil: Callable[[Path], None] | None = None


def empty_histories(bundle: Path) -> None:
    """Leave nothing in the history of any process, and seal the bundle again."""
    for path in bundle.glob("arms/*/history/*.jsonl"):
        path.write_bytes(b"")
    seal(bundle)


_UNSURE = Status.INCONCLUSIVE

MUTANTS: tuple[Mutant, ...] = (
    Mutant("commit-unfenced", "a commit does not compare its token with the fence", "I1 M12", "burials", "fencing"),
    Mutant(
        "transaction-unfenced",
        "a transactional step does not compare its token with the fence",
        "I1 M12",
        "burials-in-transaction",
        "fencing",
    ),
    Mutant(
        "fence-at-first-write",
        "the fence is raised by a new holder's first write, not at takeover",
        "I1 M05",
        "burials",
        "fencing",
    ),
    Mutant("token-kept-on-takeover", "a takeover mints no new token", "I1 I8 M09 M31", "kills", "tokens"),
    Mutant("lease-row-deleted", "the lease row goes at park, release and end", "I1 I8 M04 M32", "rests", "tokens"),
    Mutant("park-without-token", "a park does not ask who holds the lease", "I1 M20", "stale-rests", "duplicates"),
    Mutant(
        "one-verdict-per-batch",
        "all rows of a batch share one verdict",
        "I1 M25",
        "burials-in-part",
        "fencing",
    ),
    Mutant(
        "claim-after-read",
        "the frontier is read before the lease is taken",
        "I2 M02 M02b",
        "burials-slow-claim",
        "duplicates",
    ),
    Mutant("rerun-committed-step", "a takeover forgets the last committed step", "I2", "kills", "duplicates"),
    Mutant("intent-after-effect", "the intent is written behind the effect", "I3 M10", "intents", "duplicates"),
    Mutant(
        "reconcile-trusts-not-seen",
        "a probe that sees no effect takes that for proof and voids nothing",
        "I3 M11",
        "burials-in-doubt",
        "duplicates",
    ),
    Mutant("signal-without-dedupe", "a repeated signal is a new one", "I4 M28", "repeated-signals", "signals"),
    Mutant("pause-ignored", "claims and commits do not look at the pause", "I9 M17", "pauses", "paused"),
    Mutant("finish-leaves-wake", "the end does not delete the wake", "I11 M33", "kills", "terminal"),
    Mutant(
        "duplicate-upserted",
        "a repeated row overwrites instead of being refused",
        "I12",
        "lost-commits",
        "sequences",
    ),
    Mutant("resume-without-wake", "the end of a pause wakes nobody", "I13 M18", "pauses", "lost"),
    Mutant(
        "start-in-two-transactions",
        "the wake is inserted behind the acknowledged start",
        "I11",
        "starts",
        "terminal",
    ),
    Mutant("waker-skips-pending", "a waker does nothing while a wake is pending", "L1 M01 M07", "signals", "lost"),
    Mutant("park-without-seq", "a park does not ask what came in since the claim", "L1 M03", "signals", "lost"),
    Mutant(
        "wake-before-signal",
        "a signal wakes in one transaction and comes in another",
        "L1 M07b",
        "signals",
        "lost",
    ),
    Mutant(
        "early-signal-without-lock",
        "a signal is put aside without the lock that the start takes",
        "L1 M15",
        "early-signals",
        "lost",
    ),
    Mutant("no-audit", "leases of unanswered claims are never given back", "L1 M13", "lost-claims", "lost"),
    Mutant("no-audit-of-starts", "leases of unanswered starts are never given back", "L1 M22", "lost-starts", "lost"),
    Mutant("lost-batch-not-resent", "a batch without an answer is not sent again", "L1 M26", "lost-commits", "lost"),
    Mutant(
        "lost-batch-taken-as-success",
        "a batch without an answer counts as committed",
        "R4 M26",
        "unsent-commits",
        "acknowledged",
    ),
    Mutant(
        "commit-acknowledged-early",
        "a commit is acknowledged before the server has it",
        "R4",
        "acknowledgements",
        "acknowledged",
    ),
    Mutant("version-pin-ignored", "a node takes what it does not carry", "claim", "versions", "versions"),
    Mutant("session-revives", "the heartbeat of a dead session is accepted", "session", "heartbeats", "sessions"),
    Mutant(
        "kill-not-delivered",
        "the rig writes the receipt, and the process lives on",
        "evidence",
        "kills",
        "kills",
        _UNSURE,
        delivery="withheld",
        planted=False,
    ),
    Mutant(
        "freeze-not-delivered",
        "the rig tells of a frozen node that was never stopped",
        "evidence",
        "freezes",
        "disturbances",
        _UNSURE,
    ),
    Mutant(
        "cut-not-delivered",
        "the rig tells of a line that was never cut",
        "evidence",
        "partitions",
        "disturbances",
        _UNSURE,
    ),
    Mutant("witness-loses-lines", "every fifth effect is not witnessed", "evidence", "kills", "evidence", _UNSURE),
    Mutant(
        "empty-history",
        "the checkers are fed histories without an event",
        "evidence",
        "kills",
        "evidence",
        _UNSURE,
        planted=False,
        spoil=empty_histories,
    ),
)

NOT_PLANTED: tuple[tuple[str, str, str], ...] = (
    ("M03b M29", "park or step row without the check of a task's report", "tasks are not built yet"),
    ("M06 M06b", "task reclaim without its guard, report without token (I10)", "tasks are not built yet"),
    ("M03c M08", "the end of a child without the parent's wake (I7)", "children are not built yet"),
    ("M21", "one sequence number for a folded batch (I12)", "only parallel branches fold rows; they are not built yet"),
    ("M35", "signal consumed without a condition (I4)", "takes two branches that wait for one signal; not built yet"),
    (
        "M30",
        "finish without the terminal check (I6)",
        "only terminate ends an instance under its holder; not built yet",
    ),
    ("M14 M19 M34", "leases in Redis", "the split store is not built yet"),
    (
        "M16",
        "a frozen open transaction is never ended",
        "the freeze must hit a pipeline in front of its Sync; the model shows it",
    ),
    (
        "M23",
        "death as a one-shot sweep of wakes",
        "a claim must commit behind its own session's death; the model shows it",
    ),
    (
        "M24",
        "locks in arrival order (L2)",
        "the server ends the deadlock and the batch is sent again; `ninelives-rig explore` finds instance-before-wake",
    ),
    (
        "M27",
        "intent accepted while paused (I9)",
        "the pause must fall between two commits of one holder; `ninelives-rig explore` finds intent-while-paused",
    ),
)
"""Mutants of the protocol's model that are not planted: number, what they take away, and why not."""
