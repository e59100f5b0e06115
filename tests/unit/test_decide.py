"""What the decider commands, and what selectors see."""

from __future__ import annotations

from typing import Any

import pytest

from ninelives import codec
from ninelives.capability import AtMostOnce, capability
from ninelives.capture import Call
from ninelives.decide import Complete, Decision, Fail, Reconcile, RunStep, WaitSignal, decide
from ninelives.errors import PlanRefused
from ninelives.flow import Branch, Case, Flow
from ninelives.frontier import Frontier, IntentRow, StepRow
from ninelives.plan import Step
from ninelives.retry import RetryPolicy
from ninelives.state import State, value_for


@capability("act", version="1", effect=AtMostOnce, retry=RetryPolicy(attempts_max=2))
async def act(call: Call, value: Any) -> Any:
    return value


PLAN = Flow("f", version="1", deadline_s=5).step("one", act).await_signal("ok").step("two", act).plan


def step(step_id: int) -> Step:
    node = PLAN.node(step_id)
    assert isinstance(node, Step)
    return node


def success(step_id: int, result: Any = None, scope: str = "") -> StepRow:
    return StepRow(scope, step_id, 1, 0, "Success", result)


def failure(step_id: int, attempt: int, retry_in_ms: int | None = None, error: Any = None) -> StepRow:
    return StepRow(
        "", step_id, attempt, 0, "Failure", {"message": "no\\x00 luck"} if error is None else error, None, retry_in_ms
    )


def decided(*rows: StepRow | IntentRow, deadline_passed: bool = False) -> Any:
    frontier = Frontier({"a": 1})
    for row in rows:
        if isinstance(row, StepRow):
            frontier.apply(row)
        else:
            frontier.apply_intent(row)
    (command,) = decide(PLAN, frontier, deadline_passed=deadline_passed).commands
    return command


def test_sequence_runs_in_order() -> None:
    assert decided() == RunStep(step(1), "", 1, 0, 0)
    waiting = decided(success(1))
    assert isinstance(waiting, WaitSignal)
    assert (waiting.node.name, waiting.scope) == ("ok", "")
    assert decided(success(1), success(2)) == RunStep(step(3), "", 1, 0, 0)
    assert decided(success(1), success(2), success(3)) == Complete()


def test_failure_is_tried_again_after_its_delay_until_the_budget_is_used() -> None:
    assert decided(failure(1, 1, 250)) == RunStep(step(1), "", 2, 0, 250)
    assert decided(failure(1, 1, -5)) == RunStep(step(1), "", 2, 0, 0)
    assert decided(failure(1, 1)) == RunStep(step(1), "", 2, 0, 0)
    failed = decided(failure(1, 1), failure(1, 2, 99))
    assert isinstance(failed, Fail)
    assert failed.state == "Failed"
    assert failed.error == {
        "code": "step.failed",
        "type": "StepFailed",
        "message": "step 'one' failed after 2 attempts: no\\x00 luck",
        "step": "one",
        "attempts": 2,
        "cause": {"message": "no\\x00 luck"},
    }
    codec.encode(failed.error, limit_bytes=10_000, what="error")


def test_permanent_error_fails_at_once() -> None:
    failed = decided(failure(1, 1, 250, {"message": "never", "permanent": True}))
    assert isinstance(failed, Fail)
    assert failed.error["message"] == "step 'one' failed after 1 attempt: never"


@pytest.mark.parametrize("error", ["text", 7, [], {"message": None}], ids=repr)
def test_odd_error_rows_still_end_the_flow(error: Any) -> None:
    failed = decided(failure(1, 1), failure(1, 2, None, error))
    assert isinstance(failed, Fail)
    assert failed.error["message"].startswith("step 'one' failed after 2 attempts: ")


def test_open_intent_is_reconciled_and_never_run() -> None:
    intent = IntentRow("", 1, 1, 7)
    assert decided(intent) == Reconcile(step(1), "", 1, 0, intent)
    later = IntentRow("", 1, 2, 8)
    assert decided(intent, failure(1, 1), later) == Reconcile(step(1), "", 2, 0, later)
    # Settled as done or committed, yet without its row: still no licence to run it.
    for outcome in ("done", "committed"):
        assert isinstance(decided(IntentRow("", 1, 1, 7, outcome)), Reconcile)


def test_intent_of_a_failed_attempt_is_over() -> None:
    assert decided(IntentRow("", 1, 1, 7), failure(1, 1)) == RunStep(step(1), "", 2, 0, 0)
    assert decided(failure(1, 1), IntentRow("", 1, 1, 7, "committed")) == RunStep(step(1), "", 2, 0, 0)


def test_voids_take_attempts_but_no_budget() -> None:
    voided = [IntentRow("", 1, attempt, 7, "voided") for attempt in (1, 2, 3)]
    assert decided(*voided) == RunStep(step(1), "", 4, 3, 0)
    assert decided(*voided, failure(1, 4, 10)) == RunStep(step(1), "", 5, 3, 10)
    assert decided(*reversed(voided), failure(1, 4, 10), *voided) == RunStep(step(1), "", 5, 3, 10)
    assert isinstance(decided(*voided, failure(1, 4), failure(1, 5)), Fail)
    # After a void the next attempt waits for nothing, whatever an earlier failure asked for.
    assert decided(failure(1, 1, 500), IntentRow("", 1, 2, 7, "voided")) == RunStep(step(1), "", 3, 1, 0)


def test_deadline_ends_what_is_not_done() -> None:
    for rows in ((), (failure(1, 1, 10),), (success(1),), (IntentRow("", 1, 1, 7),)):
        ended = decided(*rows, deadline_passed=True)
        assert isinstance(ended, Fail)
        assert ended.state == "TimedOut"
        assert ended.error["message"].startswith("the flow's deadline of 5 s passed before step ")
    assert decided(success(1), success(2), success(3), deadline_passed=True) == Complete()


def test_unsupported_shape_is_refused_not_skipped() -> None:
    plan = Flow("f", version="1").step("a", act).parallel(Branch("b").step("x", act)).plan
    with pytest.raises(PlanRefused, match="parallel 'b': cannot run in this release"):
        decide(plan, Frontier(None), deadline_passed=False)


def test_decision_is_immutable() -> None:
    decision: Any = decide(PLAN, Frontier(None), deadline_passed=False)
    assert isinstance(decision, Decision)
    with pytest.raises(AttributeError):
        setattr(decision, "commands", ())  # noqa: B010 - a plain assignment would be refused by the type checker


def state_plan() -> Any:
    return (
        Flow("s", version="1")
        .step("one", act)
        .parallel(Branch("left").step("l", act), Branch("right").choice("c", Case("k", lambda s: True).step("r", act)))
        .loop("again", Branch("once").step("ask", act), condition=lambda s: True, iterations_max=9)
        .for_each("boxes", act, over=lambda s: [])
        .step("last", act, input=lambda state: [state.input["a"], state["one"]["n"]])
        .step("constant", act, input={"fixed": [1]})
        .plan
    )


def test_state_shows_results_by_name_and_lists_what_is_there() -> None:
    plan, frontier = state_plan(), Frontier({"a": 1})
    state = State(frontier.input, plan, frontier)
    assert "one" not in state
    with pytest.raises(KeyError, match="step 'one' is not finished; finished: nothing"):
        state["one"]
    frontier.apply(success(1, {"n": 2}))
    frontier.apply(success(3, "left", "2/1"))
    frontier.apply(success(5, "right", "2/2"))
    for iteration in (1, 2):
        frontier.apply(success(7, iteration, f"6#{iteration}"))
    frontier.apply(success(9, "box", "8/1"))
    assert [state[name] for name in ("one", "l", "r", "ask")] == [{"n": 2}, "left", "right", 2]
    assert state.finished() == ["one", "l", "r", "ask"]
    with pytest.raises(KeyError, match=r"use state\['boxes'\]"):
        state["boxes.each"]
    assert State(None, plan, frontier, "8/1")["boxes.each"] == "box"
    with pytest.raises(KeyError, match="s 1 has no step 'two'; finished: one, l, r, ask"):
        state["two"]
    with pytest.raises(KeyError, match="finished: nothing"):
        State({"a": 1})["one"]


def test_what_a_body_does_to_its_value_reaches_no_other_step() -> None:
    plan, frontier = state_plan(), Frontier({"a": {"deep": 1}})
    frontier.apply(success(1, {"n": [2]}))
    state = State(frontier.input, plan, frontier)
    state.input["a"]["deep"] = 9
    state["one"]["n"].append(9)
    value_for(plan.node(1), plan, frontier)["a"]["deep"] = 9
    value_for(plan.node(10), plan, frontier)[0]["deep"] = 9
    value_for(plan.node(11), plan, frontier)["fixed"].append(9)
    assert (state.input, state["one"]) == ({"a": {"deep": 1}}, {"n": [2]})
    assert value_for(plan.node(10), plan, frontier) == [{"deep": 1}, [2]]
    assert value_for(plan.node(11), plan, frontier) == {"fixed": [1]}
