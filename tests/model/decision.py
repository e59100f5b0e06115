"""What an activation may do next, from what it knows alone: pure, as the runtime's own decider is."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.plan import AT_MOST_ONCE, CHILD, DELAY, INLINE, SIGNAL, TASK, Step
from tests.model.rows import ABSENT, COMMITTED, COMPLETED, INTENT, INTENT_OF, NOTHING, RESULT, Known, Slot, SlotRow
from tests.model.setting import Setting
from tests.model.state import ACCEPTED, ACCEPTED_TWICE, FIRED, NO_TASK, REPORTED


class Decision(NamedTuple):
    """``ready`` steps have something to commit, ``startable`` ones may begin, ``in_flight``: effects are under way."""

    ready: tuple[int, ...]
    startable: tuple[int, ...]
    in_flight: bool
    finished: bool


def decide(setting: Setting, slot: Slot | SlotRow) -> Decision:
    """Decide for the first stage that is not done; asked again with the same knowledge, the answer is remembered."""
    assert slot.known is not None
    held = bool(slot.saw_pause) and setting.rules.pause_observed
    key = (slot.instance, slot.known, slot.branches, held)
    found = setting.decisions.get(key)
    if not isinstance(found, Decision):
        found = setting.decisions[key] = _decide(setting, slot.instance, slot.known, slot.branches, held)
    return found


def _decide(setting: Setting, i: int, known: Known, branches: tuple[int, ...], held: bool) -> Decision:
    plan = setting.plans[i]
    for stage in plan.stages:
        unfinished = [j for j in stage if known.steps[j] != COMMITTED]
        if not unfinished:
            continue
        ready = [j for j in unfinished if _is_ready(plan.steps[j], j, known, branches[j], held)]
        startable = [
            j
            for j in unfinished
            if branches[j] == NOTHING and _is_startable(plan.steps[j], known.steps[j], setting.rules.reconcile)
        ]
        in_flight = any(branches[j] not in (NOTHING, RESULT, INTENT) for j in unfinished)
        return Decision(tuple(ready), tuple(startable), in_flight, False)
    return Decision((), (), False, True)


def _is_ready(step: Step, j: int, known: Known, branch: int, held: bool) -> bool:
    """Tell whether a row can be committed. Whoever saw the pause commits results and no row that starts something."""
    if branch != NOTHING:
        return branch == RESULT or (branch == INTENT and not held)
    if step.kind == SIGNAL:
        is_here = known.signals[step.number] in (ACCEPTED, ACCEPTED_TWICE)
        return is_here or (step.timeout and known.timers[j] == FIRED)
    if step.kind == DELAY:
        return known.timers[j] == FIRED
    if step.kind == TASK:
        return known.task == REPORTED or (known.task == NO_TASK and not held)
    if step.kind == CHILD:
        state = known.states[step.number]
        return state >= COMPLETED or (state == ABSENT and not held)
    return False


def _is_startable(step: Step, row: int, reconcile: str) -> bool:
    """Tell whether a body may begin; where nobody can void, an intent without outcome waits for the operator."""
    if step.kind == AT_MOST_ONCE:
        return not (row >= INTENT_OF and reconcile == "doubt")
    return step.kind == INLINE


def ends_with(setting: Setting, slot: Slot, ready: tuple[int, ...]) -> bool:
    """Tell whether committing these rows leaves nothing to do, so that the end may travel with them."""
    assert slot.known is not None
    for j, row in enumerate(slot.known.steps):
        if row == COMMITTED:
            continue
        step = setting.plans[slot.instance].steps[j]
        starts_task = step.kind == TASK and slot.known.task == NO_TASK
        starts_child = step.kind == CHILD and slot.known.states[step.number] == ABSENT
        if j not in ready or slot.branches[j] == INTENT or starts_task or starts_child:
            return False
    return True
