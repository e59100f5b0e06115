"""Steps and what they do outside: beginning a body, and an at_most_once effect from its request to its landing."""

from __future__ import annotations

from tests.model.moves import Moves
from tests.model.plan import AT_MOST_ONCE
from tests.model.rows import COMMITTED, COMPLETED, INTENT, INTENT_OF, PERMITTED, RESULT, SENT, Slot
from tests.model.space import Violation
from tests.model.state import LANDED, ON_ITS_WAY, VOIDED, Draft, put


def begin_step(draft: Draft, a: int, j: int) -> None:
    """Begin the body of step ``j``. An at_most_once step asks for its permission first, or reconciles."""
    slot, rules = draft.slot(a), draft.setting.rules
    row = draft.instances[slot.instance]
    assert slot.known is not None
    if slot.serial == row.serial and row.state < COMPLETED:
        if row.steps[j] == COMMITTED:
            raise Violation("I2", "a committed step was executed again")
        if row.saw_pause:
            raise Violation("I9", "a step started after the pause was observed")
    if draft.setting.plans[slot.instance].steps[j].kind != AT_MOST_ONCE:
        set_branch(draft, a, j, RESULT)
    elif slot.known.steps[j] >= INTENT_OF:
        _reconcile(draft, a, j, slot.known.steps[j] - INTENT_OF)
    elif rules.intent == "after the effect":
        draft.effects = put(draft.effects, slot.token, draft.effects[slot.token] | ON_ITS_WAY)
        set_branch(draft, a, j, SENT)
    else:
        set_branch(draft, a, j, INTENT)


def _reconcile(draft: Draft, a: int, j: int, key: int) -> None:
    """Ask the sink what became of an intent without outcome: it landed, or its key is refused from now on."""
    if draft.effects[key] & LANDED:
        set_branch(draft, a, j, RESULT)
        return
    if draft.setting.rules.reconcile == "void":
        draft.effects = put(draft.effects, key, draft.effects[key] | VOIDED)
    set_branch(draft, a, j, INTENT)


def set_branch(draft: Draft, a: int, j: int, value: int) -> None:
    """Note what the activation has of step ``j``."""
    slot = draft.slot(a)
    slot.branches = put(slot.branches, j, value)


def _send(draft: Draft, a: int, j: int, key: int) -> None:
    draft.effects = put(draft.effects, key, draft.effects[key] | ON_ITS_WAY)
    set_branch(draft, a, j, SENT)


def effect_moves(moves: Moves, a: int, who: str, slot: Slot) -> None:
    """Add what an activation does about its effects: send what it may, and take the sink's answer."""
    for j, branch in enumerate(slot.branches):
        if branch == PERMITTED:
            moves.will(f"{who} sends the effect of step {j}", _send, a, j, slot.token)
        elif branch == SENT and not moves.state.effects[slot.token] & ON_ITS_WAY:
            if moves.state.effects[slot.token] & LANDED:
                moves.will(f"{who} hears that the effect of step {j} landed", set_branch, a, j, RESULT)
            else:
                moves.will(f"{who} hears that its key is void, and drops its activation", Draft.drop, a)


def _land(draft: Draft, key: int) -> None:
    effect = draft.effects[key] & ~ON_ITS_WAY
    if not effect & VOIDED:
        effect |= LANDED
    draft.effects = put(draft.effects, key, effect)
    if effect & LANDED and sum(bool(each & LANDED) for each in draft.effects) > 1:
        raise Violation("I3", "an at_most_once effect landed twice")


def landing_moves(moves: Moves) -> None:
    """Add the landing of every effect on its way; the sink refuses what is void."""
    for key, effect in enumerate(moves.state.effects):
        if effect & ON_ITS_WAY:
            moves.will(f"the effect under key {key} reaches the sink", _land, key)
