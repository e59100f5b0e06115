"""What clients and operators do: start, signal, pause, resume, terminate, settle a doubt. All of them at instance 0."""

from __future__ import annotations

from tests.model.moves import Moves
from tests.model.operations import close
from tests.model.plan import AT_MOST_ONCE
from tests.model.rows import ABSENT, COMMITTED, DUE, INTENT_OF, NOBODY, NULL, SUSPENDED, TERMINATED
from tests.model.setting import CLIENT_FREEZE, PAUSE, REPEATED_SIGNAL, TERMINATE
from tests.model.state import ACCEPTED, ACCEPTED_TWICE, CONSUMED, NOT_SENT, Draft, is_free, put

# How far the client is with a signal that takes more than one step; what 1 to 3 mean depends on the form.
IDLE, FIRST, SECOND, THIRD, INSIDE, FROZEN_INSIDE = range(6)

# The owner of the client's row locks: no slot has that number.
CLIENT = 99

WAKE, WAKE_AND_INSTANCE = (0,), (0, 1)


def client_moves(moves: Moves) -> None:
    """Add what clients may do. They start and signal in the end; whatever else they do, nobody may rely upon it."""
    state, setting = moves.state, moves.setting
    row = state.instances[0]
    holds_start_lock = setting.rules.early_signal == "start lock" and state.client == FIRST
    if row.state == ABSENT and not setting.folded_start and not holds_start_lock:
        moves.will("client: start instance 0", Draft.insert, 0)
    for q in range(setting.signals):
        if state.signals[q] == NOT_SENT:
            _signal_moves(moves, q)
        elif state.bounds[REPEATED_SIGNAL] and row.wake and is_free(state, WAKE):
            moves.may(f"client: signal {q} again", _repeat_signal, q)
    if row.wake and is_free(state, WAKE_AND_INSTANCE):
        _operator_moves(moves)


def _signal_moves(moves: Moves, q: int) -> None:
    state, rules = moves.state, moves.setting.rules
    row = state.instances[0]
    can_wake = bool(row.wake) and is_free(state, WAKE)
    if moves.setting.signals_at_locks:
        _signal_at_lock_moves(moves, q, can_wake)
    elif rules.signal == "wake, then insert":
        if state.client == IDLE and can_wake:
            moves.will(f"client: signal {q} wakes", _wake_first)
        elif state.client == FIRST:
            moves.will(f"client: signal {q} is inserted", _insert_signal, q, SECOND)
    elif rules.signal == "unlocked look":
        if state.client == IDLE and row.wake:
            idle = row.holder == NOBODY and row.run_at != DUE
            looks = f"client: signal {q} finds the instance {'idle' if idle else 'busy'}"
            moves.will(looks, _set_client, FIRST if idle else SECOND)
        elif state.client != IDLE and is_free(state, WAKE):
            moves.will(f"client: signal {q} is inserted", _insert_and_wake_the_idle, q)
    else:
        if can_wake and state.client not in (FIRST, INSIDE):
            signal = moves.will if moves.setting.signals_come else moves.may
            signal(f"client: signal {q}", _signal, q)
        elif row.state == ABSENT and rules.early_signal != "refused" and state.client == IDLE:
            moves.will(f"client: signal {q} finds no wake", _set_client, FIRST)
        if rules.signal == "whatever was woken" and row.state == ABSENT and state.client == IDLE:
            moves.may(f"client: signal {q} wakes nothing and looks again", _set_client, INSIDE)
        if state.client == INSIDE and row.state != ABSENT:
            moves.will(f"client: signal {q} finds the instance by now", _insert_signal, q, SECOND)
        elif state.client == INSIDE:
            moves.will(f"client: signal {q} finds no instance", _set_client, IDLE)
        if state.client == FIRST:
            moves.will(f"client: signal {q} is put aside", _insert_signal, q, SECOND)


def _signal_at_lock_moves(moves: Moves, q: int, can_wake: bool) -> None:
    """A client may freeze while its message is half sent: the wake is bumped and locked, the signal has not come."""
    client = moves.state.client
    if client == IDLE and can_wake:
        moves.will(f"client: signal {q} locks the wake", _lock_wake)
    elif client == INSIDE:
        moves.will(f"client: signal {q} commits", _commit_signal, q)
        if moves.state.bounds[CLIENT_FREEZE]:
            moves.may(f"client: freezes inside signal {q}", _freeze_client)
    elif client == FROZEN_INSIDE:
        moves.may("client: thaws", _set_client, INSIDE)
        if moves.setting.rules.clients_ended:
            moves.will("the client's backend is ended, and it sends again", _end_client)


def _lock_wake(draft: Draft) -> None:
    draft.client = INSIDE
    draft.locks = put(draft.locks, WAKE[0], CLIENT)


def _commit_signal(draft: Draft, q: int) -> None:
    _end_client(draft)
    _signal(draft, q)


def _freeze_client(draft: Draft) -> None:
    draft.spend(CLIENT_FREEZE)
    draft.client = FROZEN_INSIDE


def _end_client(draft: Draft) -> None:
    draft.client = IDLE
    draft.locks = put(draft.locks, WAKE[0], NOBODY)


def _signal(draft: Draft, q: int) -> None:
    """Bump the wake, then insert: one transaction."""
    draft.wake(0)
    draft.signals = put(draft.signals, q, ACCEPTED)


def _set_client(draft: Draft, at: int) -> None:
    draft.client = at


def _wake_first(draft: Draft) -> None:
    draft.client = FIRST
    draft.wake(0)


def _insert_signal(draft: Draft, q: int, at: int) -> None:
    draft.client = at
    draft.signals = put(draft.signals, q, ACCEPTED)


def _insert_and_wake_the_idle(draft: Draft, q: int) -> None:
    if draft.client == FIRST:
        draft.wake(0)
    _insert_signal(draft, q, THIRD)


def _repeat_signal(draft: Draft, q: int) -> None:
    draft.spend(REPEATED_SIGNAL)
    draft.wake(0)
    if not draft.setting.rules.signals_deduplicated and draft.signals[q] == CONSUMED:
        draft.signals = put(draft.signals, q, ACCEPTED_TWICE)


def _operator_moves(moves: Moves) -> None:
    state = moves.state
    row = state.instances[0]
    if state.bounds[PAUSE] and not row.paused:
        moves.may("operator: pause instance 0", _pause)
    if row.paused:
        moves.will("operator: resume instance 0", _resume)
    if state.bounds[TERMINATE]:
        moves.may("operator: terminate instance 0", _terminate)
    rests = row.state == SUSPENDED and row.holder == NOBODY and row.run_at == NULL
    if moves.setting.rules.reconcile == "doubt" and rests:
        for j, step in enumerate(moves.setting.plans[0].steps):
            if step.kind == AT_MOST_ONCE and row.steps[j] >= INTENT_OF:
                moves.will(f"operator: settle the doubt about step {j}", _settle, j)


def _pause(draft: Draft) -> None:
    draft.spend(PAUSE)
    draft.instance(0).paused = 1


def _resume(draft: Draft) -> None:
    row = draft.instance(0)
    row.paused = row.saw_pause = 0
    if draft.setting.rules.resume_wakes:
        draft.wake(0)


def _terminate(draft: Draft) -> None:
    draft.spend(TERMINATE)
    draft.change_state(0, TERMINATED)
    close(draft, 0)


def _settle(draft: Draft, j: int) -> None:
    row = draft.instance(0)
    row.steps = put(row.steps, j, COMMITTED)
    row.rows += 1
    draft.wake(0)
