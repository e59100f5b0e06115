"""The operations of a node on the store, one transaction each: claim, park, finish, release; the read behind a claim.

Every function is the body of one transaction, which holds the locks that ``Setting.locks`` lists for it. A node whose
precondition is gone drops its activation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.model.commits import commit, is_fenced
from tests.model.plan import TASK
from tests.model.rows import (
    AHEAD,
    COMMITTED,
    COMPLETED,
    DUE,
    FENCE,
    FUTURE,
    JUDGED,
    LEASE_END,
    NOBODY,
    NOTHING,
    NULL,
    PASSED,
    READ,
    RUN,
    RUNNING,
    SUSPENDED,
    TIMED_OUT,
    InstanceRow,
    Known,
    SlotRow,
)
from tests.model.setting import session_id
from tests.model.space import Violation
from tests.model.state import (
    ARMED,
    CANCELLED,
    FIRED,
    LEASED,
    REPORTED,
    SCHEDULED,
    UNARMED,
    Draft,
    is_alive,
    is_due,
    put,
)


def claim(draft: Draft, a: int, i: int) -> None:
    """Take a due wake: mint a token, raise the fence, hold the lease. A paused instance is put to rest instead."""
    rules = draft.setting.rules
    if rules.in_redis:
        raise_fence(draft, a, i)
        return
    row, slot = draft.instance(i), draft.slot(a)
    mine = session_id(draft.node(a), slot.generation)
    if not is_due(draft.setting, draft.sessions, row) or (rules.session_checked and not is_alive(draft.sessions, mine)):
        draft.drop(a)
        return
    if row.holder != NOBODY and is_alive(draft.sessions, row.holder):
        row.run_at = LEASE_END if rules.loser == "postpones" else NULL
        draft.drop(a)
        return
    by_snapshot = rules.claim_statement == "judged by the snapshot"
    if (slot.saw_pause if by_snapshot else row.paused) and rules.pause_observed:
        row.rest()
        draft.drop(a)
        return
    if rules.takeover_mints or row.holder == NOBODY:
        row.token += 1
    if row.token <= row.highest and "I8" not in draft.setting.ignored:
        raise Violation("I8", "a token did not rise")
    if rules.fence_raised == "at the claim":
        row.fence = row.token if rules.lease_row == "deleted" else max(row.fence, row.token)
    _hold(draft, a, i, row.token)
    row.holder = mine
    row.run_at = LEASE_END if rules.due == "run_at only" else NULL
    if rules.claim_reads == "before the claim" and slot.known is not None:
        slot.phase = RUN


def look(draft: Draft, a: int, i: int) -> None:
    """A claim's statement takes its snapshot, and then waits for the lock of the row."""
    row, slot = draft.instances[i], draft.slot(a)
    slot.phase, slot.instance, slot.saw_pause, slot.session = JUDGED, i, row.paused, slot.generation


def acquire_redis(draft: Draft, a: int, i: int) -> None:
    """Take the Redis lease, which only keeps other claimers away; the fence is raised by the transaction behind it."""
    slot = draft.slot(a)
    holder, counter = session_id(draft.node(a), slot.generation), draft.redis.counter + 1
    draft.redis = draft.redis._replace(holder=holder, counter=counter)
    slot.phase, slot.instance, slot.token, slot.session = FENCE, i, counter, slot.generation


def raise_fence(draft: Draft, a: int, i: int) -> None:
    """Raise the fence behind a Redis lease; the token is minted here, whatever the lease store counts."""
    row, slot = draft.instance(i), draft.slot(a)
    token = row.fence + 1 if draft.setting.rules.lease_store == "redis mints tokens" else slot.token
    stale = token < row.fence
    if not row.wake or row.paused or stale:
        if row.wake:
            row.run_at = DUE if stale and not row.paused else NULL
        draft.give_back_redis(a, slot.generation)
        draft.drop(a)
        return
    row.fence = token
    _hold(draft, a, i, token)
    row.holder, row.run_at = NOBODY, LEASE_END


def _hold(draft: Draft, a: int, i: int, token: int) -> None:
    row, slot = draft.instance(i), draft.slot(a)
    row.highest = max(row.highest, token)
    row.serial += 1
    row.saw_pause = 0
    draft.change_state(i, RUNNING)
    slot.phase, slot.instance, slot.token, slot.serial = READ, i, token, row.serial
    slot.seq, slot.saw_pause, slot.session = row.seq, 0, slot.generation


def read(draft: Draft, a: int) -> None:
    """Read frontier, inbox, tasks, children, timers and pause: a statement of its own behind the claim's commit."""
    slot = draft.slot(a)
    row = draft.instances[slot.instance]
    slot.known, slot.branches = _known(draft, slot.instance), (NOTHING,) * len(row.steps)
    slot.phase, slot.saw_pause = RUN, row.paused
    if row.paused and slot.serial == row.serial:
        draft.instance(slot.instance).saw_pause = 1


def read_first(draft: Draft, a: int, i: int) -> None:
    """A mutant's read: the frontier is read before the lease is taken."""
    slot = draft.slot(a)
    slot.instance, slot.known = i, _known(draft, i)
    slot.branches = (NOTHING,) * len(draft.instances[i].steps)


def _known(draft: Draft, i: int) -> Known:
    states = tuple([row.state for row in draft.instances])
    return Known(draft.instances[i].steps, draft.signals, draft.timers, draft.task.status, states)


def park(draft: Draft, a: int, i: int) -> None:
    """Let an instance rest, if the lease is still this activation's and no wake came in since it was read."""
    row, slot, rules = draft.instance(i), draft.slot(a), draft.setting.rules
    if not row.wake or not _may_park(draft, row, slot, a):
        draft.give_back_redis(a, slot.session)
        draft.drop(a)
        return
    if slot.serial != row.serial:
        raise Violation("I1", "a park was accepted under a stale token")
    if row.paused:
        row.rest()
    elif row.seq == slot.seq or not rules.park_compares_seq:
        draft.change_state(i, SUSPENDED)
        row.seen_seq = slot.seq if rules.park_compares_seq else row.seq
        row.rest()
        _arm_timers(draft, i)
        if row.deadline and rules.park_keeps_deadline and row.run_at != DUE:
            row.run_at = FUTURE if row.deadline == AHEAD else DUE
    else:
        slot.seq, slot.phase, slot.saw_pause = row.seq, READ, 0
        return
    if rules.lease_row == "deleted":
        row.token = 0
    draft.give_back_redis(a, slot.session)
    draft.drop(a)


def _may_park(draft: Draft, row: InstanceRow, slot: SlotRow, a: int) -> bool:
    rules = draft.setting.rules
    if rules.park_checks == "nothing":
        return True
    if rules.in_redis:
        return row.fence == slot.token
    # The session is the node's present one, as the lane sends it; of an older one's activations the token tells.
    is_mine = row.holder == session_id(draft.node(a), slot.generation)
    return is_mine and (row.token == slot.token or rules.park_checks == "session")


def _arm_timers(draft: Draft, i: int) -> None:
    """Arm the timers of the current stage; the earliest of them makes the wake due."""
    row, plan = draft.instance(i), draft.setting.plans[i]
    for stage in plan.stages:
        waiting = [j for j in stage if row.steps[j] != COMMITTED]
        if not waiting:
            continue
        for j in waiting:
            if plan.steps[j].has_timer:
                if draft.timers[j] == UNARMED:
                    draft.timers = put(draft.timers, j, ARMED)
                row.run_at = DUE if draft.timers[j] == FIRED or row.run_at == DUE else FUTURE
        return


def finish(draft: Draft, a: int, i: int, state: int = COMPLETED) -> None:
    """End an instance under its holder's token: terminal, wake row gone, parent woken, all in one transaction."""
    row, slot, rules = draft.instance(i), draft.slot(a), draft.setting.rules
    is_terminal = row.state >= COMPLETED and rules.end_checks_terminal
    if is_fenced(rules, row, slot) or is_terminal:
        draft.give_back_redis(a, slot.session)
        draft.drop(a)
        return
    if slot.serial != row.serial:
        raise Violation("I1", "a finish was accepted under a stale token")
    if row.paused:
        row.rest()
    else:
        draft.change_state(i, state)
        close(draft, i)
    draft.give_back_redis(a, slot.session)
    draft.drop(a)


def time_out(draft: Draft, a: int, i: int) -> None:
    """End an instance whose deadline passed."""
    finish(draft, a, i, TIMED_OUT)


def close(draft: Draft, i: int) -> None:
    """What an end does beside the state: the wake row goes, tasks are cancelled, the parent is woken."""
    row, rules, parent = draft.instance(i), draft.setting.rules, draft.setting.parents[i]
    row.wake = int(not rules.end_deletes_wake)
    row.rest()
    if draft.setting.plans[i].has(TASK) and draft.task.status in (SCHEDULED, LEASED, REPORTED):
        draft.task = draft.task._replace(status=CANCELLED)
    row.reports += 1
    if row.reports > 1:
        raise Violation("I7", "the end of a child was reported twice")
    if parent is not None and rules.end_wakes_parent:
        draft.wake(parent)


def last_commit(draft: Draft, a: int, i: int) -> None:
    """The last commit and the end of the instance in one transaction."""
    if commit(draft, a, i):
        finish(draft, a, i)


def commit_rows(draft: Draft, a: int, i: int) -> None:
    """Commit what is ready."""
    commit(draft, a, i)


def release(draft: Draft, a: int, i: int) -> None:
    """Give back what this session holds without knowing it: due at once, the state stays."""
    row, slot = draft.instance(i), draft.slot(a)
    if row.wake and row.holder == session_id(draft.node(a), slot.generation):
        row.due_now()
    draft.drop(a)


def past_deadline(draft: Draft) -> None:
    """The deadline of instance 0 passes."""
    row = draft.instance(0)
    row.deadline = PASSED
    if row.run_at == FUTURE:
        row.run_at = DUE


BODIES: Final[dict[str, Callable[[Draft, int, int], None]]] = {
    "claim": claim,
    "commit": commit_rows,
    "last commit": last_commit,
    "park": park,
    "finish": finish,
    "time out": time_out,
    "release": release,
}

# Whoever loses the answer to one of these knows nothing of what it did; every other is sent again.
NOT_REPEATED: Final = ("claim", "release")
