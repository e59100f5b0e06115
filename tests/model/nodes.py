"""What a node does when nothing fails: claim, read, begin steps, commit, park, audit, open a new session."""

from __future__ import annotations

from tests.model.decision import decide, ends_with
from tests.model.effects import begin_step, effect_moves
from tests.model.faults import absence_moves, is_first, open_session, process_moves
from tests.model.moves import Moves
from tests.model.operations import acquire_redis, claim, look, read, read_first, release
from tests.model.rows import (
    ABSENT,
    FENCE,
    IDLE,
    JUDGED,
    LEASE_END,
    NOBODY,
    NOTHING,
    PASSED,
    READ,
    UP,
    Slot,
)
from tests.model.setting import LOST_ANSWER, session_id
from tests.model.state import Draft, is_alive, is_due
from tests.model.transactions import attempt, transaction_moves


def node_moves(moves: Moves) -> None:
    """Add what every slot of every node may do, and what may befall it."""
    for a, slot in enumerate(moves.state.slots):
        _slot_moves(moves, a, slot)


def _slot_moves(moves: Moves, a: int, slot: Slot) -> None:
    who = moves.setting.names[a]
    if slot.mode != UP:
        absence_moves(moves, a, who, slot)
        return
    process_moves(moves, a, slot)
    if slot.transaction is not None:
        transaction_moves(moves, a, who, slot)
        return
    is_idle = slot.phase == IDLE
    if is_idle if moves.setting.slots == 1 else is_first(moves, a):
        node = a // moves.setting.slots
        if not is_alive(moves.state.sessions, session_id(node, slot.generation)):
            moves.will(f"node {node} opens a new session", open_session, node)
    if is_idle:
        if _first_idle(moves, a):
            _idle_moves(moves, a, who, slot)
    elif slot.session != slot.generation:
        _superseded_moves(moves, a, who, slot)
    elif slot.phase in (FENCE, JUDGED):
        attempt(moves, a, who, "claim", slot.instance)
    elif slot.phase == READ:
        moves.will(f"{who} reads instance {slot.instance}", read, a)
    else:
        _run_moves(moves, a, who, slot)


def _first_idle(moves: Moves, a: int) -> bool:
    """Idle slots of one node are alike: one of them acts for all."""
    start = a - a % moves.setting.slots
    return all(slot.phase != IDLE or slot.transaction is not None for slot in moves.state.slots[start:a])


# -- without an activation


def _idle_moves(moves: Moves, a: int, who: str, slot: Slot) -> None:
    state, setting = moves.state, moves.setting
    mine = session_id(a // setting.slots, slot.generation)
    if setting.rules.in_redis and setting.rules.audit and state.redis.holder == mine:
        moves.will(f"{who}'s audit gives its lease in Redis back", Draft.give_back_redis, a, slot.generation)
    for i, row in enumerate(state.instances):
        if setting.rules.audit and row.wake and row.holder == mine and not _is_known(moves, a, i):
            if setting.at_locks:
                attempt(moves, a, who, "release", i)
            else:
                moves.will(f"{who}'s audit gives instance {i} back", release, a, i)
        if setting.folded_start and i == 0 and row.state == ABSENT and is_alive(state.sessions, mine):
            moves.will(f"{who} starts and claims instance 0", _start_and_claim, a)
            if state.bounds[LOST_ANSWER]:
                moves.may(f"{who} starts and claims instance 0, its answer lost", _start_and_lose, a)
        if is_due(setting, state.sessions, row):
            _claim_moves(moves, a, who, slot, i)


def _is_known(moves: Moves, a: int, i: int) -> bool:
    """Tell whether a slot of this node runs the instance under the token that the store names: what the audit asks."""
    start = a - a % moves.setting.slots
    token, known_by = moves.state.instances[i].token, moves.setting.rules.audit_knows
    return any(
        slot.phase != IDLE and slot.instance == i and (slot.token == token or known_by == "instance")
        for slot in moves.state.slots[start : start + moves.setting.slots]
    )


def _claim_moves(moves: Moves, a: int, who: str, slot: Slot, i: int) -> None:
    state, rules = moves.state, moves.setting.rules
    if rules.in_redis:
        mine = session_id(a // moves.setting.slots, slot.generation)
        if not _is_redis_held(moves):
            if is_alive(state.sessions, mine):
                moves.will(f"{who} takes the lease in Redis", acquire_redis, a, i)
        else:
            moves.will(f"{who} finds the lease in Redis taken, and postpones", _postpone, i)
    elif rules.claim_reads == "before the claim" and slot.known is None:
        moves.will(f"{who} reads instance {i} before it claims it", read_first, a, i)
    elif rules.claim_statement != "one step":
        moves.will(f"{who}'s claim looks at instance {i}", look, a, i)
    else:
        attempt(moves, a, who, "claim", i)


def _is_redis_held(moves: Moves) -> bool:
    holder = moves.state.redis.holder
    if holder == NOBODY:
        return False
    if moves.setting.rules.redis_lease_ends == "by its own expiry":
        return True
    return is_alive(moves.state.sessions, holder)


def _postpone(draft: Draft, i: int) -> None:
    draft.instance(i).run_at = LEASE_END


def _start_and_claim(draft: Draft, a: int) -> None:
    draft.insert(0)
    claim(draft, a, 0)


def _start_and_lose(draft: Draft, a: int) -> None:
    draft.spend(LOST_ANSWER)
    before = draft.slots[a]
    _start_and_claim(draft, a)
    draft.slots[a] = before


# -- with an activation


def _superseded_moves(moves: Moves, a: int, who: str, slot: Slot) -> None:
    """Its session is dead: what is in flight ends, commits are tried, and nothing else begins."""
    if slot.phase in (FENCE, JUDGED, READ):
        moves.will(f"{who} drops its activation of instance {slot.instance}", Draft.drop, a)
        return
    decision = decide(moves.setting, slot)
    effect_moves(moves, a, who, slot)
    if any(slot.branches[j] != NOTHING for j in decision.ready):
        attempt(moves, a, who, "commit", slot.instance)
    elif not decision.in_flight:
        moves.will(f"{who} drops its activation of instance {slot.instance}", Draft.drop, a)
        if not decision.ready and not decision.startable:
            # Decided before the session was renewed, sent behind it.
            attempt(moves, a, who, "park", slot.instance)


def _run_moves(moves: Moves, a: int, who: str, slot: Slot) -> None:
    setting, i = moves.setting, slot.instance
    decision = decide(setting, slot)
    if decision.finished:
        attempt(moves, a, who, "finish", i)
        return
    if setting.deadline and moves.state.instances[i].deadline == PASSED:
        _past_deadline_moves(moves, a, who, slot)
        return
    if decision.ready:
        ends = setting.folded_finish and ends_with(setting, slot, decision.ready)
        attempt(moves, a, who, "last commit" if ends else "commit", i)
    if not (slot.saw_pause and setting.rules.pause_observed):
        for j in decision.startable:
            moves.will(f"{who} begins step {j} of instance {i}", begin_step, a, j)
    effect_moves(moves, a, who, slot)
    if not decision.ready and not decision.in_flight and (not decision.startable or slot.saw_pause):
        attempt(moves, a, who, "park", i)


def _past_deadline_moves(moves: Moves, a: int, who: str, slot: Slot) -> None:
    """Past the deadline nothing begins: what is in flight ends, its result is committed, then the instance ends."""
    decision = decide(moves.setting, slot)
    effect_moves(moves, a, who, slot)
    if any(slot.branches[j] != NOTHING for j in decision.ready):
        attempt(moves, a, who, "commit", slot.instance)
    elif not decision.in_flight:
        attempt(moves, a, who, "time out", slot.instance)
