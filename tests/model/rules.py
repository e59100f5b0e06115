"""The rules of the protocol as switches. The defaults are the protocol; every mutant turns one of them round.

Three of them have two right answers, which the configurations choose: ``lease_store`` with ``due``, ``early_signal``
and ``reconcile``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rules:
    """What every participant does. Literals that are not listed first belong to mutants, or to configurations."""

    # claiming
    due: Literal["dead holder", "run_at only", "swept once"] = "dead holder"
    claim_reads: Literal["behind the claim", "before the claim"] = "behind the claim"
    claim_statement: Literal["one step", "judged under the lock", "judged by the snapshot"] = "one step"
    takeover_mints: bool = True
    fence_raised: Literal["at the claim", "at the first write"] = "at the claim"
    lease_row: Literal["kept", "deleted"] = "kept"
    session_checked: bool = True
    loser: Literal["postpones", "nulls run_at"] = "postpones"
    lease_store: Literal["postgres", "redis", "redis mints tokens"] = "postgres"
    redis_lease_ends: Literal["with the session", "by its own expiry"] = "with the session"
    fenced_holder_gives_back: bool = True
    audit: bool = True
    audit_knows: Literal["instance and token", "instance"] = "instance and token"
    clients_ended: bool = True
    backends_ended: bool = True
    # writing
    commit_fenced: bool = True
    park_checks: Literal["token and session", "session", "nothing"] = "token and session"
    park_compares_seq: bool = True
    park_keeps_deadline: bool = True
    numbers: Literal["one for each row", "one for a batch"] = "one for each row"
    signal_consumed: Literal["if unconsumed", "always"] = "if unconsumed"
    result_consumed: Literal["with its step row", "in a transaction before"] = "with its step row"
    start_rows_while_paused: Literal["refused", "accepted"] = "refused"
    pause_observed: bool = True
    end_checks_terminal: bool = True
    end_deletes_wake: bool = True
    end_wakes_parent: bool = True
    # effects
    intent: Literal["before the effect", "after the effect"] = "before the effect"
    reconcile: Literal["void", "doubt", "trust not seen"] = "void"
    # waking
    waker: Literal["always bumps", "skips pending"] = "always bumps"
    signal: Literal["one transaction", "unlocked look", "wake, then insert", "whatever was woken"] = "one transaction"
    early_signal: Literal["refused", "start lock", "no lock"] = "refused"
    signals_deduplicated: bool = True
    resume_wakes: bool = True
    # tasks
    report_checks_token: bool = True
    reclaim: Literal["guarded", "by id"] = "guarded"

    @property
    def in_redis(self) -> bool:
        """Whether claimers are kept apart by Redis."""
        return self.lease_store != "postgres"


PROTOCOL = Rules()
