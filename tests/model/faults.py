"""What fails: processes die and freeze, sessions are declared dead, the server restarts, Redis forgets."""

from __future__ import annotations

from tests.model.moves import Moves
from tests.model.rows import DOWN, FROZEN, IDLE, NOBODY, RUN, SENT, UP, Session, Slot, empty_slot
from tests.model.setting import (
    CRASH,
    FALSE_DEATH,
    FLUSH,
    FREEZE,
    REDIS_EXPIRY,
    SERVER_RESTART,
    node_of,
    session_id,
)
from tests.model.state import ON_ITS_WAY, Draft, Redis, State, is_alive, put


def slots_of(draft: Draft, node: int) -> range:
    """Return the slots of a node."""
    return range(node * draft.setting.slots, (node + 1) * draft.setting.slots)


def is_first(moves: Moves, a: int) -> bool:
    """Tell whether a slot is its node's first, which speaks for the node."""
    return a % moves.setting.slots == 0


def absence_moves(moves: Moves, a: int, who: str, slot: Slot) -> None:
    """Add how a node comes back that is down or frozen; its backends are ended when its session is declared dead."""
    node = a // moves.setting.slots
    alive = moves.state.sessions[node].alive
    if slot.mode == DOWN:
        if is_first(moves, a) and not alive:
            moves.will(f"node {node} starts again with a new session", _restart, node)
        return
    if is_first(moves, a):
        moves.may(f"node {node} thaws", _set_mode, node, UP)
    if slot.transaction is not None and moves.setting.rules.backends_ended and not alive:
        moves.will(f"the backend of {who} is ended", Draft.unlock, a)


def _restart(draft: Draft, node: int) -> None:
    generation = draft.sessions[node].generation + 1
    _set_session(draft, node, Session(generation, True))
    for a in slots_of(draft, node):
        draft.slots[a] = empty_slot(UP, generation)


def _set_session(draft: Draft, node: int, session: Session) -> None:
    draft.sessions = (*draft.sessions[:node], session, *draft.sessions[node + 1 :])


def _set_mode(draft: Draft, node: int, mode: int) -> None:
    for a in slots_of(draft, node):
        draft.slot(a).mode = mode


def open_session(draft: Draft, node: int) -> None:
    """A node whose session is dead opens a new one; what it still runs keeps the old one's name."""
    generation = draft.sessions[node].generation + 1
    _set_session(draft, node, Session(generation, True))
    for a in slots_of(draft, node):
        draft.slot(a).generation = generation


def process_moves(moves: Moves, a: int, slot: Slot) -> None:
    """Add the crash and the freeze of a node that is up, wherever it stands."""
    state, setting = moves.state, moves.setting
    node = a // setting.slots
    if state.bounds[CRASH]:
        if is_first(moves, a) and (_is_busy(moves, node) or _owns(state, node)):
            moves.may(f"node {node} crashes", _crash, node)
        if slot.phase == RUN and SENT in slot.branches:
            moves.may(f"node {node} crashes, its request lost", _crash_with_request, node, slot.token)
    if state.bounds[FREEZE] and is_first(moves, a) and _is_busy(moves, node):
        others = (other.mode == UP for b, other in enumerate(state.slots) if b // setting.slots != node)
        if any(others):
            moves.may(f"node {node} freezes", _freeze, node)


def _is_busy(moves: Moves, node: int) -> bool:
    slots = moves.setting.slots
    return any(
        slot.phase != IDLE or slot.transaction is not None
        for slot in moves.state.slots[node * slots : (node + 1) * slots]
    )


def _owns(state: State, node: int) -> bool:
    return node_of(state.redis.holder) == node or any(node_of(row.holder) == node for row in state.instances)


def _crash(draft: Draft, node: int) -> None:
    draft.spend(CRASH)
    for a in slots_of(draft, node):
        draft.unlock(a)
        draft.slots[a] = empty_slot(DOWN, draft.slots[a].generation)


def _crash_with_request(draft: Draft, node: int, key: int) -> None:
    _crash(draft, node)
    if draft.effects[key] == ON_ITS_WAY:
        draft.effects = put(draft.effects, key, 0)


def _freeze(draft: Draft, node: int) -> None:
    draft.spend(FREEZE)
    _set_mode(draft, node, FROZEN)


def session_moves(moves: Moves) -> None:
    """Add the deaths of sessions: of nodes that are gone, and by mistake of one that lives."""
    state = moves.state
    for node, session in enumerate(state.sessions):
        if not session.alive:
            continue
        if state.slots[node * moves.setting.slots].mode != UP:
            moves.will(f"the session of node {node} is declared dead", _declare_dead, node)
        elif state.bounds[FALSE_DEATH]:
            moves.may(f"the session of node {node} is declared dead, though the node lives", _declare_falsely, node)


def _declare_dead(draft: Draft, node: int) -> None:
    _set_session(draft, node, draft.sessions[node]._replace(alive=False))
    if draft.setting.rules.due == "swept once":
        for i, row in enumerate(draft.instances):
            if row.wake and node_of(row.holder) == node:
                draft.instance(i).due_now()


def _declare_falsely(draft: Draft, node: int) -> None:
    draft.spend(FALSE_DEATH)
    _declare_dead(draft, node)


def server_moves(moves: Moves) -> None:
    """Add the restart of the database, which rolls every open transaction back, and the faults of Redis."""
    state = moves.state
    if state.bounds[SERVER_RESTART] and any(slot.transaction is not None for slot in state.slots):
        moves.may("the database restarts", _restart_server)
    if not moves.setting.rules.in_redis:
        return
    if state.bounds[FLUSH]:
        moves.may("Redis is flushed", _flush)
    if state.redis.holder != NOBODY and moves.setting.rules.redis_lease_ends == "by its own expiry":
        node = node_of(state.redis.holder)
        generation = state.slots[node * moves.setting.slots].generation
        renewed = state.slots[node * moves.setting.slots].mode == UP and is_alive(
            state.sessions, state.redis.holder
        ) and state.redis.holder == session_id(node, generation)
        if not renewed:
            moves.will("the lease in Redis expires", _expire)
        elif state.bounds[REDIS_EXPIRY]:
            moves.may("the lease in Redis expires, though its holder lives", _expire_falsely)


def _restart_server(draft: Draft) -> None:
    draft.spend(SERVER_RESTART)
    for a in range(len(draft.slots)):
        if draft.slots[a].transaction is not None:
            draft.unlock(a)


def _flush(draft: Draft) -> None:
    draft.spend(FLUSH)
    draft.redis = Redis(NOBODY, 0)


def _expire(draft: Draft) -> None:
    draft.redis = draft.redis._replace(holder=NOBODY)


def _expire_falsely(draft: Draft) -> None:
    draft.spend(REDIS_EXPIRY)
    _expire(draft)


