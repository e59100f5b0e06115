"""The commit of what an activation has ready: step rows, intents, tasks and children, judged row by row."""

from __future__ import annotations

from tests.model.decision import decide
from tests.model.plan import CHILD, SIGNAL, TASK
from tests.model.rows import (
    ABSENT,
    COMMITTED,
    COMPLETED,
    INTENT,
    INTENT_OF,
    NOTHING,
    PENDING,
    PERMITTED,
    READ,
    RESULT,
    InstanceRow,
    Known,
    SlotRow,
)
from tests.model.rules import Rules
from tests.model.space import Violation
from tests.model.state import (
    ACCEPTED,
    ACCEPTED_TWICE,
    CONSUMED,
    NO_TASK,
    REPORTED,
    SCHEDULED,
    SEEN,
    Draft,
    put,
)


def commit(draft: Draft, a: int, i: int) -> bool:
    """Commit the ready rows of an activation; tell whether all of them went in.

    One verdict for the activation: not terminal, and fence = token. A row that exists is a success of the lost answer.
    """
    row, slot = draft.instance(i), draft.slot(a)
    if _is_refused(draft.setting.rules, row, slot):
        draft.drop(a)
        return False
    ready = decide(draft.setting, slot).ready
    if slot.serial != row.serial:
        raise Violation("I1", "a journal write was accepted under a stale token")
    if draft.setting.rules.fence_raised == "at the first write":
        row.fence = max(row.fence, slot.token)
    batch = _Batch(draft, row, slot)
    for j in ready:
        batch.take(j)
    return batch.close()


def _is_refused(rules: Rules, row: InstanceRow, slot: SlotRow) -> bool:
    if row.state >= COMPLETED or row.state == ABSENT:
        return True
    return rules.commit_fenced and is_fenced(rules, row, slot)


def is_fenced(rules: Rules, row: InstanceRow, slot: SlotRow) -> bool:
    """Tell whether a newer token was minted. A fence that is raised by a write can only be compared by order."""
    return row.fence > slot.token if rules.fence_raised == "at the first write" else row.fence != slot.token


class _Batch:
    """The rows of one activation in one transaction, folded: one sequence number for each row that went in."""

    def __init__(self, draft: Draft, row: InstanceRow, slot: SlotRow) -> None:
        assert slot.known is not None
        self.draft, self.row, self.slot = draft, row, slot
        self.before: Known = slot.known
        self.steps = [*slot.known.steps]
        self.journal = [*row.steps]
        self.signals = [*slot.known.signals]
        self.states = [*slot.known.states]
        self.task = slot.known.task
        self.branches = [*slot.branches]
        self.inserted = 0
        self.absorbed = False

    def take(self, j: int) -> None:
        """Write what step ``j`` has ready."""
        if self.journal[j] == COMMITTED:
            self._done(j)
        elif self.branches[j] == INTENT:
            self._intend(j)
        elif self._consume(j):
            self.journal[j] = COMMITTED
            self._done(j)
            self.inserted += 1

    def _done(self, j: int) -> None:
        self.steps[j], self.branches[j] = COMMITTED, NOTHING

    def _intend(self, j: int) -> None:
        """Insert an intent; its answer is the permission. It starts something, so a pause refuses it."""
        mine = INTENT_OF + self.slot.token
        if self.row.paused and self.journal[j] != mine:
            if self.draft.setting.rules.start_rows_while_paused == "accepted":
                raise Violation("I9", "a step started after the pause was observed")
            self.branches[j] = NOTHING
            return
        self.journal[j] = self.steps[j] = mine
        self.branches[j] = PERMITTED

    def _consume(self, j: int) -> bool:
        """Consume what the step waited for; tell whether its row goes in."""
        step = self.draft.setting.plans[self.slot.instance].steps[j]
        if step.kind == SIGNAL:
            return self._signal(step.number)
        if step.kind == TASK:
            return self._take_task(j)
        if step.kind == CHILD:
            return self._take_child(step.number)
        return True

    def _signal(self, q: int) -> bool:
        """Judged as it was read; a branch beside this one may have taken the signal in the same batch."""
        draft = self.draft
        if self.before.signals[q] not in (ACCEPTED, ACCEPTED_TWICE):
            return True
        if draft.signals[q] == CONSUMED and draft.setting.rules.signal_consumed == "if unconsumed":
            self.absorbed = True
            return False
        if draft.signals[q] != ACCEPTED:
            raise Violation("I4", "a signal was consumed twice")
        draft.signals = put(draft.signals, q, CONSUMED)
        self.signals[q] = CONSUMED
        return True

    def _take_task(self, j: int) -> bool:
        draft = self.draft
        if self.task == NO_TASK:
            if not self.row.paused:
                if draft.task.status == NO_TASK:
                    draft.task = draft.task._replace(status=SCHEDULED)
                    self.task = SCHEDULED
                else:
                    self.absorbed = True
            return False
        if draft.setting.rules.result_consumed == "in a transaction before":
            if self.branches[j] != RESULT:
                draft.task = draft.task._replace(status=SEEN)
                self.branches[j] = RESULT
                return False
        elif draft.task.status != REPORTED:
            raise Violation("I5", "a task's result was consumed twice, or its task reopened")
        draft.task = draft.task._replace(status=SEEN)
        return True

    def _take_child(self, number: int) -> bool:
        if self.states[number] != ABSENT:
            return True
        if not self.row.paused:
            if self.draft.instances[number].state == ABSENT:
                self.draft.insert(number)
            state = self.draft.instances[number].state
            self.states[number] = PENDING if state < COMPLETED else state
            self.absorbed = self.absorbed or state != PENDING
        return False

    def close(self) -> bool:
        """Number the rows, note the pause, and bring up to date what the activation knows."""
        row, slot = self.row, self.slot
        row.steps = tuple(self.journal)
        if self.inserted:
            row.rows += self.inserted if self.draft.setting.rules.numbers == "one for each row" else 1
            if row.rows != self.journal.count(COMMITTED):
                raise Violation("I12", "sequence numbers are not dense")
        if row.paused:
            slot.saw_pause = row.saw_pause = 1
        slot.known = Known(
            tuple(self.steps), tuple(self.signals), self.before.timers, self.task, tuple(self.states)
        )
        slot.branches = tuple(self.branches)
        if self.absorbed:
            slot.phase = READ
        return not self.absorbed
