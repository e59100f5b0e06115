"""What must hold in every state. What must hold of a step is judged where the step is made, as a `Violation`."""

from __future__ import annotations

from tests.model.rows import ABSENT, COMPLETED, NOBODY, NULL, PENDING, SUSPENDED
from tests.model.setting import Setting
from tests.model.space import Violation
from tests.model.state import State

INVARIANTS = {
    "I1": "a holder's write is accepted only under the newest token",
    "I2": "no current holder starts a step whose row is committed",
    "I3": "an at_most_once effect lands at most once",
    "I4": "an accepted signal is consumed once, or is listed at the end",
    "I5": "a task or child result is consumed once, with its step row",
    "I6": "a terminal state never changes",
    "I7": "an end is reported to the parent once, in the same transaction",
    "I8": "the tokens of an instance strictly rise",
    "I9": "nothing starts after the pause was observed",
    "I10": "a task takes writes of its current token only and never reopens",
    "I11": "a wake row exists exactly while the instance is not terminal",
    "I12": "sequences are dense and unique",
    "I13": "unheld with run_at null means paused, or Suspended with seq = seen_seq",
    "S1": "no session is declared dead that its node renews",
    "L1": "from every reachable state, with faults over, every instance can still end",
    "L2": "no cycle of lock waits",
}


def broken(setting: Setting, state: State) -> Violation | None:
    """Return the invariant of states that does not hold, if one does not."""
    rules = setting.rules
    for row in state.instances:
        is_live = PENDING <= row.state <= SUSPENDED
        if bool(row.wake) != is_live:
            return Violation("I11", "the wake row does not tell whether the instance is terminal")
        if not is_live or row.holder != NOBODY or row.run_at != NULL:
            continue
        if rules.due != "dead holder" or rules.in_redis or "I13" in setting.ignored:
            continue
        if not row.paused and (row.state != SUSPENDED or row.seq != row.seen_seq):
            return Violation("I13", "an instance is unheld and not due, and has not seen its last wake")
    return None


def has_ended(setting: Setting, state: State) -> bool:
    """Tell whether every instance is terminal; a child whose parent ended before starting it counts as ended."""
    return all(
        row.state >= COMPLETED or (row.state == ABSENT and _parent_ended(setting, state, i))
        for i, row in enumerate(state.instances)
    )


def _parent_ended(setting: Setting, state: State, i: int) -> bool:
    parent = setting.parents[i]
    return parent is not None and state.instances[parent].state >= COMPLETED
