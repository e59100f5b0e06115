"""A run that is cut off and resumed anywhere decides, and ends, as a straight run does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ninelives.capability import AtMostOnce, capability
from ninelives.capture import Call
from ninelives.decide import Command, Complete, Fail, Reconcile, RunStep, WaitSignal, decide
from ninelives.flow import Flow
from ninelives.frontier import Frontier, IntentRow, StepRow
from ninelives.plan import Plan
from ninelives.retry import RetryPolicy

INPUT = {"order": 1}
ATTEMPTS_MAX = 3


@capability("act", version="1", effect=AtMostOnce, retry=RetryPolicy(attempts_max=ATTEMPTS_MAX, jitter=0))
async def act(call: Call, value: Any) -> Any:
    return value


@dataclass
class World:
    """What happens outside: per step, how its attempts end. S success, F failure, P permanent, V voided."""

    plan: Plan
    script: dict[int, str]
    rows: list[StepRow] = field(default_factory=list)
    intents: list[IntentRow] = field(default_factory=list)

    def outcome(self, step_id: int, attempt: int) -> str:
        script = self.script.get(step_id, "")
        return script[attempt - 1] if attempt <= len(script) else "S"

    def obey(self, command: Command, frontier: Frontier) -> None:
        """Carry out one command and feed its committed rows back."""
        if isinstance(command, WaitSignal):
            self._commit(frontier, command.node.step_id, 1, "Success", "payload")
            return
        assert isinstance(command, (RunStep, Reconcile))
        step_id, attempt = command.node.step_id, command.attempt
        assert not any(row.step_id == step_id and row.outcome == "Success" for row in self.rows), "ran a done step"
        assert not any((row.step_id, row.attempt) == (step_id, attempt) for row in self.rows), "attempt used twice"
        outcome = self.outcome(step_id, attempt)
        if outcome == "V" and isinstance(command, RunStep):
            # The holder dies with its intent open; a successor finds it.
            self._intend(frontier, IntentRow("", step_id, attempt, 1))
        elif outcome == "V":
            self._intend(frontier, IntentRow("", step_id, attempt, 1, "voided"))
        elif outcome == "S":
            self._commit(frontier, step_id, attempt, "Success", [step_id, attempt])
        else:
            error = {"message": f"{step_id}.{attempt}"} | ({"permanent": True} if outcome == "P" else {})
            self._commit(frontier, step_id, attempt, "Failure", error)

    def _commit(self, frontier: Frontier, step_id: int, attempt: int, outcome: str, result: Any) -> None:
        row = StepRow("", step_id, attempt, len(self.rows) + 1, outcome, result, {"now": len(self.rows)})
        self.rows.append(row)
        frontier.apply(row)

    def _intend(self, frontier: Frontier, row: IntentRow) -> None:
        self.intents = [*(one for one in self.intents if (one.step_id, one.attempt) != (row.step_id, row.attempt)), row]
        frontier.apply_intent(row)


def brief(command: Command) -> tuple[Any, ...]:
    """A command without object identities."""
    if isinstance(command, (RunStep, Reconcile)):
        return type(command).__name__, command.node.step_id, command.attempt, command.voids
    if isinstance(command, WaitSignal):
        return "WaitSignal", command.node.step_id
    if isinstance(command, Fail):
        return "Fail", command.state, command.error
    return (type(command).__name__,)


def _built(kinds: list[str]) -> Plan:
    flow = Flow("f", version="1")
    for number, kind in enumerate(kinds, 1):
        flow = flow.step(f"n{number}", act) if kind == "step" else flow.await_signal(f"n{number}")
    return flow.plan


plans = st.lists(st.sampled_from(["step", "wait"]), min_size=1, max_size=6).map(_built)
scripts = st.dictionaries(st.integers(1, 6), st.text("FVSP", max_size=6), max_size=6)


def run(plan: Plan, script: dict[int, str], restarts: list[str]) -> tuple[list[Any], World]:
    """Run to the end; before every decision the next of `restarts` says how the frontier is rebuilt, if at all."""
    world = World(plan, script)
    frontier = Frontier(INPUT)
    stored: bytes | None = None
    covered = 0
    decisions: list[Any] = []
    for turn in range(200):
        restart = restarts[turn % len(restarts)]
        if restart == "store":
            stored, covered = frontier.snapshot(), len(world.rows)
        elif restart != "none":
            frontier = Frontier(INPUT)
            if restart == "snapshot":
                frontier = Frontier.restore(INPUT, stored)
            for row in world.rows[covered if restart == "snapshot" else 0 :]:
                frontier.apply(row)
            for intent in world.intents:
                frontier.apply_intent(intent)
        commands = decide(plan, frontier, deadline_passed=False).commands
        assert len(commands) == 1, "a sequence always has exactly one thing to do"
        decisions.append(brief(commands[0]))
        if isinstance(commands[0], (Complete, Fail)):
            return decisions, world
        world.obey(commands[0], frontier)
    raise AssertionError(f"no end after 200 decisions: {decisions[-5:]}")


@given(plans, scripts, st.lists(st.sampled_from(["none", "rows", "snapshot", "store"]), min_size=1, max_size=12))
def test_restarts_change_no_decision(plan: Plan, script: dict[int, str], restarts: list[str]) -> None:
    straight, first = run(plan, script, ["none"])
    resumed, second = run(plan, script, restarts)
    assert resumed == straight
    assert [(row.step_id, row.attempt, row.outcome, row.result) for row in second.rows] == [
        (row.step_id, row.attempt, row.outcome, row.result) for row in first.rows
    ]


@given(plans, scripts)
def test_end_is_what_the_scripts_say(plan: Plan, script: dict[int, str]) -> None:
    decisions, world = run(plan, script, ["none"])
    expected = "Complete"
    for node in plan.nodes:
        if node.kind == "await_signal":
            continue
        failures = 0
        for outcome in script.get(node.step_id, "") + "S":
            failures += outcome in "FP"
            if outcome in "SP" or failures == ATTEMPTS_MAX:
                break
        if outcome == "P" or failures == ATTEMPTS_MAX:
            expected = "Fail"
            break
    assert decisions[-1][0] == expected
    failures_by_step = [
        sum(r.step_id == node.step_id and r.outcome == "Failure" for r in world.rows) for node in plan.nodes
    ]
    assert max(failures_by_step) <= ATTEMPTS_MAX


@given(plans, scripts, st.integers(0, 30))
def test_deadline_is_total_on_every_prefix(plan: Plan, script: dict[int, str], cut: int) -> None:
    _, world = run(plan, script, ["none"])
    frontier = Frontier(INPUT)
    for row in world.rows[:cut]:
        frontier.apply(row)
    (command,) = decide(plan, frontier, deadline_passed=True).commands
    finished = frontier.done_to == len(plan.nodes)
    assert isinstance(command, Complete if finished else Fail)


@given(
    plans,
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 4), st.sampled_from(["Success", "Failure", "Compensated"]))
        | st.tuples(st.integers(1, 6), st.integers(1, 4), st.sampled_from([None, "voided", "committed", "done"])),
        max_size=20,
    ),
    st.booleans(),
)
def test_decide_is_total_and_never_starts_a_finished_step(plan: Plan, facts: list[Any], deadline: bool) -> None:
    frontier = Frontier(INPUT)
    failed: dict[int, set[int]] = {}
    for step_id, attempt, outcome in facts:
        step_id = min(step_id, len(plan.nodes))
        if outcome in ("Success", "Failure", "Compensated"):
            frontier.apply(StepRow("", step_id, attempt, 0, outcome, {"message": "m"}))
            if outcome == "Failure":
                failed.setdefault(step_id, set()).add(attempt)
        else:
            frontier.apply_intent(IntentRow("", step_id, attempt, 1, outcome))
    commands = decide(plan, frontier, deadline_passed=deadline).commands
    for command in commands:
        if isinstance(command, (RunStep, Reconcile, WaitSignal)):
            assert not frontier.is_done(command.scope, command.node.step_id)
        if isinstance(command, RunStep):
            assert command.attempt not in failed.get(command.node.step_id, ())
    resumed = Frontier.restore(INPUT, frontier.snapshot())
    again = decide(plan, resumed, deadline_passed=deadline).commands
    assert list(map(brief, again)) == list(map(brief, commands))
