"""What happens outside nodes and clients: task workers and the reclaimer, and clocks that pass a time."""

from __future__ import annotations

from tests.model.moves import Moves
from tests.model.operations import past_deadline
from tests.model.rows import AHEAD, DUE, FUTURE, LEASE_END
from tests.model.setting import TASK_EXPIRY, WORKER_CRASH
from tests.model.space import Violation
from tests.model.state import (
    ARMED,
    CANCELLED,
    FIRED,
    LEASED,
    REPORTED,
    SCHEDULED,
    SEEN,
    Draft,
    is_free,
    put,
)


def task_moves(moves: Moves) -> None:
    """Add what two workers do with the task, and the reclaim of its lease."""
    i = moves.setting.task_instance
    if i is None:
        return
    state = moves.state
    for v, token in enumerate(state.workers):
        if not token and state.task.status == SCHEDULED:
            moves.will(f"worker {v} leases the task", _lease, v)
        if token and is_free(state, (2 * i,)):
            moves.will(f"worker {v} reports", _report, v, i)
        if token and state.bounds[WORKER_CRASH]:
            moves.may(f"worker {v} crashes", _lose_worker, v)
    if state.task.status == LEASED and not state.task.doomed:
        if state.task.token not in state.workers:
            moves.will("the lease of the task expires and is reclaimed", _reclaim, False)
        elif state.bounds[TASK_EXPIRY]:
            moves.may("the lease of the task expires under its worker and is reclaimed", _reclaim, True)
    if state.task.doomed:
        moves.will("the reclaimer resets the task by its id", _reset)


def _lease(draft: Draft, v: int) -> None:
    token = draft.task.token + 1
    draft.task = draft.task._replace(status=LEASED, token=token)
    draft.workers = put(draft.workers, v, token)


def _report(draft: Draft, v: int, i: int) -> None:
    """The wake first, then the task; a report under another token rolls back."""
    token, task = draft.workers[v], draft.task
    draft.workers = put(draft.workers, v, 0)
    if task.status != LEASED or (task.token != token and draft.setting.rules.report_checks_token):
        return
    if task.token != token:
        raise Violation("I10", "a task's report was accepted under a stale token")
    draft.task = task._replace(status=REPORTED)
    draft.wake(i)


def _lose_worker(draft: Draft, v: int) -> None:
    draft.spend(WORKER_CRASH)
    draft.workers = put(draft.workers, v, 0)


def _reclaim(draft: Draft, is_fault: bool) -> None:
    if is_fault:
        draft.spend(TASK_EXPIRY)
    if draft.setting.rules.reclaim == "guarded":
        draft.task = draft.task._replace(status=SCHEDULED)
    else:
        draft.task = draft.task._replace(doomed=1)


def _reset(draft: Draft) -> None:
    draft.task = draft.task._replace(doomed=0)
    if draft.task.status in (REPORTED, SEEN):
        raise Violation("I10", "a reclaim reopened a finished task")
    if draft.task.status != CANCELLED:
        draft.task = draft.task._replace(status=SCHEDULED)


def clock_moves(moves: Moves) -> None:
    """Add the times that may pass: timers, the deadline, the end of a lease."""
    for j, timer in enumerate(moves.state.timers):
        if timer == ARMED:
            moves.will(f"the timer of step {j} is due", _fire, j)
    for i, row in enumerate(moves.state.instances):
        if row.run_at == LEASE_END:
            moves.will(f"run_at of instance {i}, a lease's end, passes", _pass_lease_end, i)
    if moves.setting.deadline and moves.state.instances[0].deadline == AHEAD:
        moves.will("the deadline of instance 0 passes", past_deadline)


def _fire(draft: Draft, j: int) -> None:
    draft.timers = put(draft.timers, j, FIRED)
    if draft.instances[0].run_at == FUTURE:
        draft.instance(0).run_at = DUE


def _pass_lease_end(draft: Draft, i: int) -> None:
    draft.instance(i).run_at = DUE
