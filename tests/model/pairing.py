"""Which mutant of `make sabotage` plants the fault of a model's mutant in the real store, or why none does."""

from __future__ import annotations

from typing import Final

PAIRS: Final[dict[str, tuple[str, ...]]] = {
    "M01": ("waker-skips-pending",),
    "M02": ("claim-after-read",),
    "M02b": ("claim-after-read",),
    "M03": ("park-without-seq",),
    "M04": ("lease-row-deleted",),
    "M05": ("fence-at-first-write",),
    "M07": ("waker-skips-pending",),
    "M07b": ("wake-before-signal",),
    "M09": ("token-kept-on-takeover",),
    "M10": ("intent-after-effect",),
    "M11": ("reconcile-trusts-not-seen",),
    "M12": ("commit-unfenced", "transaction-unfenced"),
    "M13": ("no-audit",),
    "M15": ("early-signal-without-lock",),
    "M17": ("pause-ignored",),
    "M18": ("resume-without-wake",),
    "M18b": ("resume-without-wake",),
    "M20": ("park-without-token",),
    "M22": ("no-audit-of-starts",),
    "M25": ("one-verdict-per-batch",),
    "M26": ("lost-batch-not-resent", "lost-batch-taken-as-success"),
    "M28": ("signal-without-dedupe",),
    "M31": ("token-kept-on-takeover",),
    "M32": ("lease-row-deleted",),
    "M33": ("finish-leaves-wake",),
}
"""The mutants of the real store, by the number of the model's."""

_TASKS = "the store has no tasks yet"
_CHILDREN = "the store has no children yet"
_REDIS = "the store keeps no leases in Redis yet"

UNPAIRED: Final[dict[str, str]] = {
    "M03b": _TASKS,
    "M03c": _CHILDREN,
    "M06": _TASKS,
    "M06b": _TASKS,
    "M08": _CHILDREN,
    "M14": _REDIS,
    "M16": "a freeze has to hit a pipeline in front of its Sync, which the runtime sends with it",
    "M19": _REDIS,
    "M21": "only parallel branches fold several rows of one instance, and the store has none yet",
    "M23": "a claim has to commit behind the death of its own session, in a window of one statement",
    "M24": "the server ends the deadlock and the batch is sent again, so that only time is lost; "
    "tests/store counts deadlocks",
    "M27": "the pause has to fall between two commits of one holder; tests/store shows the guard",
    "M29": _TASKS,
    "M30": "only terminate ends an instance under its holder, and the store has none yet",
    "M34": _REDIS,
    "M35": "two branches have to wait for one signal, and the store has no branches yet",
    "M36": "the resume has to commit while the claim waits for its lock; "
    "tests/store/test_claim.py holds exactly this interleaving and was seen to fail",
    "M36b": "as M36",
    "M37": "not planted yet; tests/store/test_park_and_signal.py shows that the deadline bounds a park",
    "M38": "park-without-token takes this guard and the session's away together; this half is not planted yet",
    "M39": _REDIS,
    "M40": _REDIS,
    "M41": _REDIS,
    "M43": "the start has to commit between two statements of one signal; `ninelives-rig explore` finds "
    "signal-inserted-without-bump",
    "M42": "the model shows what is missing in the store: nobody ends the backend of a frozen client",
}
"""Why no mutant of the real store plants this fault."""
