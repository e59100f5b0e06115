"""How an operation reaches the store: at once, lock by lock, with its answer lost, or late behind a lost connection."""

from __future__ import annotations

from tests.model.moves import Moves
from tests.model.operations import BODIES, NOT_REPEATED
from tests.model.rows import NOBODY, Late, Slot, empty_slot
from tests.model.setting import LATE_EXECUTION, LOST_ANSWER
from tests.model.state import Draft, is_free, put


def attempt(moves: Moves, a: int, who: str, operation: str, i: int) -> None:
    """Add an operation of a slot: one atomic step where all that it reads is locked, else its beginning."""
    setting, state = moves.setting, moves.state
    if setting.at_locks:
        # A claim skips a wake that is locked.
        if operation != "claim" or is_free(state, setting.locks[operation, i][:1]):
            moves.will(f"{who} begins to {operation} instance {i}", _begin, a, operation, i)
        return
    moves.will(f"{who}: {operation} instance {i}", BODIES[operation], a, i)
    if state.bounds[LATE_EXECUTION] and state.late is None:
        moves.may(f"{who}: {operation} instance {i}, cut off before the server executes it", _cut_off, a, operation, i)
    if state.bounds[LOST_ANSWER]:
        moves.may(f"{who}: {operation} instance {i}, its answer lost", _lose_answer, a, operation, i)


def _begin(draft: Draft, a: int, operation: str, i: int) -> None:
    slot = draft.slot(a)
    slot.transaction, slot.locked = (operation, i), 0


def transaction_moves(moves: Moves, a: int, who: str, slot: Slot) -> None:
    """Add the next lock of an open transaction, or its commit."""
    assert slot.transaction is not None
    operation, i = slot.transaction
    rows = moves.setting.locks[operation, i]
    if slot.locked < len(rows):
        row = rows[slot.locked]
        if moves.state.locks[row] == NOBODY:
            what = "instance" if row % 2 else "wake"
            moves.will(f"{who}, to {operation} instance {i}, locks {what} {row // 2}", _lock, a, row)
        return
    moves.will(f"{who}: {operation} instance {i} commits", _commit, a, operation, i)
    if moves.state.bounds[LOST_ANSWER]:
        moves.may(f"{who}: {operation} instance {i} commits, its answer lost", _lose_answer, a, operation, i)


def _lock(draft: Draft, a: int, row: int) -> None:
    draft.locks = put(draft.locks, row, a)
    draft.slot(a).locked += 1


def _commit(draft: Draft, a: int, operation: str, i: int) -> None:
    draft.unlock(a)
    BODIES[operation](draft, a, i)


def _lose_answer(draft: Draft, a: int, operation: str, i: int) -> None:
    """The transaction commits and the node does not hear of it: it sends again what can be sent again."""
    draft.spend(LOST_ANSWER)
    if draft.locks:
        draft.unlock(a)
    before = draft.slot(a).frozen()
    BODIES[operation](draft, a, i)
    _left_with(draft, a, operation, before)


def _left_with(draft: Draft, a: int, operation: str, before: Slot) -> None:
    draft.slots[a] = empty_slot(before.mode, before.generation) if operation in NOT_REPEATED else before


def _cut_off(draft: Draft, a: int, operation: str, i: int) -> None:
    """The request is on its way and its connection is gone: the server executes it later, or never."""
    draft.spend(LATE_EXECUTION)
    memory = draft.slot(a).frozen()
    draft.late = Late(operation, i, a, memory)
    _left_with(draft, a, operation, memory)


def late_moves(moves: Moves) -> None:
    """Add the late execution of a request that was cut off."""
    late = moves.state.late
    if late is None or not is_free(moves.state, moves.setting.locks[late.operation, late.instance]):
        return
    what = f"{late.operation} instance {late.instance}"
    moves.will(f"the server executes a request that was cut off: {what}", _execute_late, late)
    moves.may(f"a request that was cut off is never executed: {what}", _lose_late)


def _execute_late(draft: Draft, late: Late) -> None:
    now = draft.slot(late.slot).frozen()
    draft.slots[late.slot] = late.memory
    draft.late = None
    BODIES[late.operation](draft, late.slot, late.instance)
    draft.slots[late.slot] = now


def _lose_late(draft: Draft) -> None:
    draft.late = None
