"""What may run next: a pure function of the plan and of what is committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import PlanRefused
from .frontier import Frontier, IntentRow, Trouble
from .plan import AwaitSignal, Node, Plan, Step


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run attempt `attempt` of a step after `delay_ms`; `voids` voided intents went before (see its key)."""

    node: Step
    scope: str
    attempt: int
    voids: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Find out what became of an attempt whose intent has no outcome; never run it blindly."""

    node: Step
    scope: str
    attempt: int
    voids: int
    intent: IntentRow


@dataclass(frozen=True, slots=True)
class WaitSignal:
    """Take the signal the node is named after, or wait for it."""

    node: AwaitSignal
    scope: str


@dataclass(frozen=True, slots=True)
class Complete:
    """Everything is done; the last node's result is the flow's."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End without a result: `state` is Failed or TimedOut, `error` a recordable description."""

    error: dict[str, Any]
    state: str


Command = RunStep | Reconcile | WaitSignal | Complete | Fail


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now. No command: wait for something outside, which is to park."""

    commands: tuple[Command, ...]


def decide(plan: Plan, frontier: Frontier, *, deadline_passed: bool) -> Decision:
    """Decide what may run.

    All done: Complete, whatever the deadline says, because nothing is left that it could prevent. Past the
    deadline: Fail as TimedOut. An intent without outcome: Reconcile. Retries used up, or a permanent error:
    Fail. Raises PlanRefused for a plan with a shape this release cannot run (which registration refuses).
    """
    prepared = plan.prepared or _prepare(plan)
    position = frontier.done_to
    if position >= len(prepared) - 1:
        return prepared[-1]
    if deadline_passed:
        return Decision((_deadline(plan, plan.nodes[position]),))
    if frontier.troubles:
        node = plan.nodes[position]
        trouble = frontier.troubles.get(("", node.step_id))
        if trouble is not None and isinstance(node, Step):
            return Decision((_again(node, trouble),))
    return prepared[position]


def _prepare(plan: Plan) -> list[Decision]:
    """Make the answer for every position of a sequence once; most calls then only look it up."""
    prepared: list[Decision] = []
    for node in plan.nodes:
        if isinstance(node, Step):
            prepared.append(Decision((RunStep(node, "", 1, 0, 0),)))
        elif isinstance(node, AwaitSignal):
            prepared.append(Decision((WaitSignal(node, ""),)))
        else:
            raise PlanRefused(f"{plan}, {node.kind} {node.name!r}", "cannot run in this release; register the flow")
    prepared.append(Decision((Complete(),)))
    plan.prepared[:] = prepared
    return plan.prepared


def _again(node: Step, trouble: Trouble) -> Command:
    """Decide about a step that was tried before."""
    last = trouble.attempt
    voids = len(trouble.voided)
    intent = trouble.open_intent
    if intent is not None:
        return Reconcile(node, "", intent.attempt, voids, intent)
    failures = len(trouble.failed)
    permanent = isinstance(trouble.error, dict) and trouble.error.get("permanent") is True
    if failures and (permanent or failures >= node.retry.attempts_max):
        return Fail(_exhausted(node, failures, trouble.error), "Failed")
    # A void is no failure: the attempt after it waits for nothing.
    delay_ms = trouble.retry_in_ms if trouble.failed.last == last and trouble.retry_in_ms else 0
    return RunStep(node, "", last + 1, voids, max(delay_ms, 0))


def _exhausted(node: Step, failures: int, cause: Any) -> dict[str, Any]:
    said = cause.get("message") if isinstance(cause, dict) else None
    times = "1 attempt" if failures == 1 else f"{failures} attempts"
    error: dict[str, Any] = {
        "code": "step.failed",
        "type": "StepFailed",
        "message": f"step {node.name!r} failed after {times}: {said or 'no error text was recorded'}",
        "step": node.name,
        "attempts": failures,
    }
    if cause is not None:
        error["cause"] = cause
    return error


def _deadline(plan: Plan, node: Node) -> Fail:
    after = "" if plan.deadline_s is None else f" of {plan.deadline_s:g} s"
    message = f"the flow's deadline{after} passed before step {node.name!r} was done"
    return Fail(
        {"code": "flow.deadline_passed", "type": "DeadlinePassed", "message": message, "step": node.name}, "TimedOut"
    )
