"""The mutants of the protocol by name: which rule is turned round, where it is explored, and what it has to violate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.model.configurations import BY_NAME
from tests.model.setting import Setting

# Bounds under which most mutants show; few faults keep the scripts short.
FEW = {"crash": 1, "freeze": 1, "false death": 1}
NONE: Mapping[str, int] = {}


@dataclass(frozen=True)
class Mutant:
    """One rule turned round in one configuration; ``steps`` is the length of the shortest way to the violation."""

    number: str
    what: str
    configuration: str
    invariant: str
    steps: int
    rules: Mapping[str, object]
    faults: Mapping[str, int] = field(default_factory=lambda: FEW)
    ignored: frozenset[str] = frozenset()

    def setting(self) -> Setting:
        """Return what is explored."""
        return BY_NAME[self.configuration].setting(self.faults, self.ignored, **self.rules)


_BY_SNAPSHOT = {"claim_statement": "judged by the snapshot"}
_FREEZE = {"freeze": 1}
_BY_NODE = {"park_checks": "session"}
_CLIENT = {"clients_ended": False}
_I8 = frozenset({"I8"})
_I13 = frozenset({"I13"})

MUTANTS = (
    Mutant("M01", "a waker skips when a wake is pending", "signal", "L1", 4, {"waker": "skips pending"}, NONE),
    Mutant("M02", "the frontier is read before the claim", "signal", "I2", 9, {"claim_reads": "before the claim"}),
    Mutant("M02b", "the same without signals", "core", "I2", 9, {"claim_reads": "before the claim"}),
    Mutant("M03", "a park does not compare seq: a signal", "signal", "L1", 4, {"park_compares_seq": False}, NONE),
    Mutant("M03b", "the same: a task's report", "task", "L1", 6, {"park_compares_seq": False}, NONE),
    Mutant("M03c", "the same: the end of a child", "child", "L1", 9, {"park_compares_seq": False}, NONE),
    Mutant("M04", "the lease row is deleted", "signal", "I1", 12, {"lease_row": "deleted"}, ignored=_I8),
    Mutant("M05", "the fence is raised at the first write", "core", "I1", 7, {"fence_raised": "at the first write"}),
    Mutant("M06", "a task is reclaimed by id alone", "task", "I10", 8, {"reclaim": "by id"}, {"task expiry": 1}),
    Mutant(
        "M06b", "a task's report shows no token", "task", "I10", 8, {"report_checks_token": False}, {"task expiry": 1}
    ),
    Mutant("M07", "a signal looks without the wake's lock", "signal", "L1", 4, {"signal": "unlocked look"}, NONE),
    Mutant("M07b", "a signal wakes, then is inserted", "signal", "L1", 4, {"signal": "wake, then insert"}, NONE),
    Mutant("M08", "an end does not wake the parent", "child", "L1", 0, {"end_wakes_parent": False}, NONE),
    Mutant("M09", "a takeover keeps the token", "core", "I1", 7, {"takeover_mints": False}, ignored=_I8),
    Mutant("M10", "the intent is written after the effect", "amo", "I3", 10, {"intent": "after the effect"}),
    Mutant("M11", "reconcile trusts 'not seen'", "amo", "I3", 14, {"reconcile": "trust not seen"}),
    Mutant("M12", "a commit is not fenced", "core", "I1", 7, {"commit_fenced": False}),
    Mutant("M13", "no audit of claims without an answer", "core", "L1", 2, {"audit": False}, {"lost answer": 1}),
    Mutant("M14", "the loser of a live lease nulls run_at", "runat", "L1", 5, {"loser": "nulls run_at"}),
    Mutant("M15", "an early signal takes no start lock", "early", "L1", 4, {"early_signal": "no lock"}, NONE),
    Mutant("M16", "a frozen transaction is never ended", "frozentx", "L1", 4, {"backends_ended": False}, {"freeze": 1}),
    Mutant("M17", "a pause is not observed", "control", "I9", 5, {"pause_observed": False}, {"pause": 1}),
    Mutant("M18", "a resume does not wake", "control", "I13", 4, {"resume_wakes": False}, {"pause": 1}),
    Mutant(
        "M18b",
        "the same, judged by what comes of it",
        "control",
        "L1",
        4,
        {"resume_wakes": False},
        {"pause": 1},
        ignored=_I13,
    ),
    Mutant("M19", "Redis mints the tokens, and is flushed", "redis", "I1", 9, {"lease_store": "redis"}, {"flush": 1}),
    Mutant("M20", "a park checks no token", "signal", "I1", 8, {"park_checks": "nothing"}),
    Mutant("M21", "one sequence number for a batch", "parallel", "I12", 6, {"numbers": "one for a batch"}),
    Mutant("M22", "no audit of starts without an answer", "fold", "L1", 1, {"audit": False}, {"lost answer": 1}),
    Mutant(
        "M23",
        "death sweeps the wakes once, there is no rule",
        "core",
        "L1",
        4,
        {"due": "swept once", "session_checked": False},
    ),
    Mutant(
        "M27",
        "an intent is accepted while paused",
        "amoterm",
        "I9",
        6,
        {"start_rows_while_paused": "accepted"},
        {"pause": 1},
    ),
    Mutant(
        "M28",
        "a repeated signal is a new one",
        "signal2",
        "I4",
        9,
        {"signals_deduplicated": False},
        {"repeated signal": 1},
    ),
    Mutant(
        "M29",
        "a result is marked seen before its step row",
        "task",
        "L1",
        10,
        {"result_consumed": "in a transaction before"},
        {"crash": 1},
    ),
    Mutant(
        "M30",
        "a finish does not check for terminal",
        "control",
        "I6",
        9,
        {"end_checks_terminal": False},
        {"terminate": 1},
    ),
    Mutant("M31", "a takeover keeps the token", "core", "I8", 4, {"takeover_mints": False}),
    Mutant("M32", "the lease row is deleted", "signal", "I8", 8, {"lease_row": "deleted"}),
    Mutant("M33", "an end leaves the wake row", "core", "I11", 8, {"end_deletes_wake": False}, NONE),
    Mutant(
        "M34",
        "a fenced holder keeps its Redis lease, no audit",
        "redis",
        "L1",
        7,
        {"fenced_holder_gives_back": False, "audit": False},
    ),
    Mutant("M35", "a signal is consumed unconditionally", "parsig", "I4", 5, {"signal_consumed": "always"}, NONE),
    # What follows belongs to the configurations beyond the first 29.
    Mutant("M36", "a claim judges a pause by its snapshot", "resume", "I13", 5, _BY_SNAPSHOT, {"pause": 1}),
    Mutant(
        "M36b",
        "the same, judged by what comes of it",
        "resume",
        "L1",
        6,
        _BY_SNAPSHOT,
        {"pause": 1},
        ignored=_I13,
    ),
    Mutant("M37", "a park forgets the deadline", "deadline", "L1", 6, {"park_keeps_deadline": False}, NONE),
    Mutant("M38", "a park asks for the node's session alone", "slotssig", "I1", 7, _BY_NODE),
    Mutant("M39", "a frozen holder's commit is unfenced", "redisfrozen", "I1", 11, {"commit_fenced": False}, _FREEZE),
    Mutant(
        "M40",
        "a fenced holder keeps its Redis lease, no audit",
        "redisfrozen",
        "L1",
        9,
        {"fenced_holder_gives_back": False, "audit": False},
        {"freeze": 1, "crash": 1},
    ),
    Mutant(
        "M41",
        "a transaction frozen behind a Redis lease is never ended",
        "redisfrozentx",
        "L1",
        5,
        {"backends_ended": False},
        _FREEZE,
    ),
    Mutant(
        "M43",
        "a signal that woke nothing is inserted when the instance is there by then",
        "early",
        "L1",
        4,
        {"signal": "whatever was woken"},
        NONE,
    ),
    Mutant("M42", "a client's frozen transaction is not ended", "frozenclient", "L1", 3, _CLIENT, {"client freeze": 1}),
)
