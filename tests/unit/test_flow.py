"""Flows become plans; what cannot run is refused with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from ninelives.capability import AtMostOnce, Transactional, capability
from ninelives.capture import Call
from ninelives.errors import PlanRefused
from ninelives.flow import Branch, Case, Flow
from ninelives.plan import FIRST_SUCCESS, Merge, Step, child_scope, quorum, split_scope
from ninelives.registry import Registry, check_runnable
from ninelives.retry import RetryPolicy


@capability("act", version="1.0.0")
async def act(call: Call, value: Any) -> Any:
    return value


@capability("act", version="1.1.0")
async def act_newer(call: Call, value: Any) -> Any:
    return value


@capability("act", version="1.0.0", effect=AtMostOnce)
async def act_once(call: Call, value: Any) -> Any:
    return value


@capability("record", version="1", effect=Transactional, retry=RetryPolicy(attempts_max=7), timeout_s=9)
async def record(call: Call, value: Any) -> Any:
    return value


def flow(version: str = "1.2.0", **changed: Any) -> Flow:
    return Flow("order.place", version=version, **changed)


def everything() -> Flow:
    """One flow with every shape."""
    return (
        flow()
        .step("reserve", act, undo=act)
        .parallel(Branch("pay").step("capture", act_once).step("receipt", act), Branch("pack").step("box", act))
        .for_each("boxes", act, over=lambda state: state["reserve"], in_flight_max=4)
        .choice("kind", Case("big", lambda state: True).step("crane", act), otherwise=Branch("small").step("hand", act))
        .loop("poll", Branch("once").step("ask", act).delay("pause", 1.5), condition=lambda s: True, iterations_max=9)
        .subflow("bill", Flow("bill", version="2").step("send", act), detached=True)
        .await_signal("approved", timeout_s=60)
        .emit("order.placed", key=lambda state: state.input["customer"])
    )


def test_ids_follow_the_plan_depth_first() -> None:
    plan = everything().plan
    named = {node.step_id: node.name for node in plan.all_nodes}
    assert list(named.values()) == [
        "reserve", "pay-pack", "capture", "receipt", "box", "boxes", "boxes.each", "kind", "crane", "hand",
        "poll", "ask", "pause", "bill", "approved", "order.placed",
    ]  # fmt: skip
    assert list(named) == list(range(1, 17))
    assert plan.node(12).name == "ask"
    assert [(node.name, index) for node, index in plan.containers[5]] == [("pay-pack", 2)]
    assert not plan.is_sequence
    for outside in (0, 17, -1):
        with pytest.raises(PlanRefused, match="steps 1 to 16"):
            plan.node(outside)


def test_plan_describes_itself_as_json() -> None:
    described = everything().plan.describe()
    assert orjson.loads(orjson.dumps(described)) == described
    assert described["nodes"][1]["branches"][0]["nodes"][0] == {
        "step_id": 3,
        "kind": "step",
        "name": "capture",
        "capability": {"id": "act", "version": "1.0.0", "effect": "at_most_once"},
        "undo": None,
        "timeout_s": None,
    }


def test_builder_is_immutable_and_shares_beginnings() -> None:
    start = flow().step("a", act)
    left, right = start.step("b", act), start.step("c", act)
    assert [node.name for node in start.plan.nodes] == ["a"]
    assert [node.name for node in left.plan.nodes] == ["a", "b"]
    assert [node.name for node in right.plan.nodes] == ["a", "c"]
    assert left.plan is left.plan


def test_step_takes_its_capabilitys_policy_unless_told() -> None:
    node = flow().step("a", record).plan.nodes[0]
    assert isinstance(node, Step)
    assert (node.retry.attempts_max, node.timeout_s) == (7, 9)
    node = flow().step("a", record, retry=RetryPolicy(attempts_max=2), timeout_s=1).plan.nodes[0]
    assert isinstance(node, Step)
    assert (node.retry.attempts_max, node.timeout_s) == (2, 1)


def test_fingerprint_is_fixed_by_structure() -> None:
    base = flow().step("a", act).step("b", act).plan.fingerprint
    # Recorded: a change of the formula would refuse every running instance after an upgrade.
    assert base == "7a38ae11900bb57ad2149744609f2bd01a8bc66439e6ae2d7a55cdaef063d190"
    same = flow(deadline_s=5).step("a", act, input=1, retry=RetryPolicy(attempts_max=9)).step("b", act)
    assert same.plan.fingerprint == base
    different = [
        flow().step("b", act).step("a", act),
        flow().step("a", act).step("c", act),
        flow().step("a", act),
        flow().step("a", act).step("b", act_newer),
        flow().step("a", act).step("b", act_once),
        flow().step("a", act).step("b", act, timeout_s=1),
        flow().step("a", act).step("b", act, undo=act),
        flow().step("a", act).await_signal("b"),
        flow("1.2.1").step("a", act).step("b", act),
        flow().step("a", act).parallel(Branch("x").step("b", act), name="p"),
    ]
    prints = {one.plan.fingerprint for one in different}
    assert len(prints | {base}) == len(different) + 1


async def async_selector(state: Any) -> Any:
    return None


def bare(call: Any, value: Any) -> Any:
    return value


def nested(levels: int) -> Flow:
    branch = Branch("b0").step("leaf", act)
    for level in range(1, levels):
        branch = Branch(f"b{level}").loop(f"l{level}", branch, condition=lambda state: True, iterations_max=1)
    return flow().parallel(branch)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "empty flow": (lambda: flow(), "order.place 1.2.0: has no steps"),
    "bad id": (lambda: Flow("order place", version="1").step("a", act), "the flow's id must be"),
    "nul in id": (lambda: Flow("a\0", version="1").step("a", act), "the flow's id must be"),
    "bad version": (lambda: Flow("a", version="latest").step("a", act), "version must read like"),
    "bad deadline": (lambda: flow(deadline_s=float("nan")).step("a", act), "deadline_s must be above 0"),
    "duplicate": (
        lambda: flow().step("pay", act).step("pay", act),
        "order.place 1.2.0, step 'pay': the name is taken by step 1",
    ),
    "duplicate across branches": (
        lambda: flow().step("x", act).parallel(Branch("b").step("x", act)),
        "step 'x': the name is taken by step 1",
    ),
    "bad name": (lambda: flow().step("a b", act), "step 'a b': its name must be"),
    "surrogate name": (lambda: flow().step("\ud800", act), r"step '\\ud800': its name must be"),
    "name no str": (lambda: flow().step(7, act), "step 7: its name must be"),  # type: ignore[arg-type]
    "undecorated": (lambda: flow().step("pay", bare), "step 'pay': its capability .*'bare'; decorate it"),  # type: ignore[arg-type]
    "no capability": (lambda: flow().step("pay", None), "its capability must be made by"),  # type: ignore[arg-type]
    "undecorated undo": (lambda: flow().step("pay", act, undo=bare), "its undo must be made by"),  # type: ignore[arg-type]
    "constant": (lambda: flow().step("pay", act, input={"at": object()}), r"step 'pay': the constant .*\$\.at"),
    "constant nan": (lambda: flow().step("pay", act, input=[float("nan")]), r"the constant .*\$\[0\]"),
    "async selector": (lambda: flow().step("pay", act, input=async_selector), "plain function of the state"),
    "selector arity": (lambda: flow().step("pay", act, input=lambda: 1), "must take one argument"),
    "retry": (lambda: flow().step("pay", act, retry=3), "retry must be a RetryPolicy"),  # type: ignore[arg-type]
    "timeout": (lambda: flow().step("pay", act, timeout_s=0), "timeout_s must be above 0"),
    "delay": (lambda: flow().delay("d", None), "delay_s must be a number"),  # type: ignore[arg-type]
    "no branches": (lambda: flow().parallel(name="p"), "parallel 'p': has no branches"),
    "empty branch": (lambda: flow().parallel(Branch("b")), "branch 'b': has no steps"),
    "twin branches": (
        lambda: flow().parallel(Branch("b").step("x", act), Branch("b").step("y", act)),
        "two branches called 'b'",
    ),
    "not a branch": (lambda: flow().parallel(act, name="p"), "takes Branch"),  # type: ignore[arg-type]
    "quorum": (lambda: flow().parallel(Branch("b").step("x", act), merge=quorum(2)), r"quorum must be in 1\.\.1"),
    "merge": (lambda: flow().parallel(Branch("b").step("x", act), merge=Merge("some")), "merge must be one of"),
    "needless": (
        lambda: flow().parallel(Branch("b").step("x", act), merge=Merge("all_settled", 1)),
        "a quorum, and nothing else",
    ),
    "over": (lambda: flow().for_each("e", act, over=[1]), "over must be a function"),  # type: ignore[arg-type]
    "in flight": (lambda: flow().for_each("e", act, over=lambda s: [], in_flight_max=0), "in_flight_max"),
    "body": (lambda: flow().for_each("e", bare, over=lambda s: []), "its body must be"),  # type: ignore[arg-type]
    "no cases": (lambda: flow().choice("c"), "has no cases"),
    "case without condition": (lambda: flow().choice("c", Branch("b").step("x", act)), "when must be a function"),  # type: ignore[arg-type]
    "endless": (
        lambda: flow().loop("l", act, condition=lambda s: True, iterations_max=None),  # type: ignore[arg-type]
        "a loop without end",
    ),
    "unreachable": (
        lambda: flow().loop("l", act, condition=lambda s: True, iterations_max=0),
        r"iterations_max must be a whole number in 1\.\.",
    ),
    "not a flow": (lambda: flow().subflow("s", act), "flow must be a Flow"),  # type: ignore[arg-type]
    "deep": (lambda: nested(60), "nested deeper than 32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_run_is_refused_with_its_place(name: str) -> None:
    build, message = WRONG[name]
    with pytest.raises(PlanRefused, match=message):
        _ = build().plan


NOT_YET: dict[str, Flow] = {
    "parallel": flow().parallel(Branch("b").step("x", act), merge=FIRST_SUCCESS),
    "for_each": flow().for_each("e", act, over=lambda state: []),
    "choice": flow().choice("c", Case("k", lambda state: True).step("x", act)),
    "loop": flow().loop("l", act, condition=lambda state: True, iterations_max=3),
    "subflow": flow().subflow("s", Flow("child", version="1").step("x", act)),
    "emit": flow().emit("placed"),
    "delay": flow().delay("d", 1),
    "await_signal": flow().await_signal("w", timeout_s=1),
    "step": flow().step("pay", act, undo=act),
}


@pytest.mark.parametrize("kind", NOT_YET)
def test_shape_of_a_later_release_is_refused_by_name(kind: str) -> None:
    plan = NOT_YET[kind].plan
    with pytest.raises(PlanRefused, match=rf"order.place 1.2.0, {kind} '.*cannot run in this release"):
        check_runnable(plan)
    with pytest.raises(PlanRefused, match="cannot run in this release"):
        Registry([NOT_YET[kind]])


def test_registry_finds_by_id_and_version() -> None:
    one, two = flow("1.9").step("a", act), flow("1.10").step("a", act)
    rc = flow("1.10-rc1").step("a", act)
    registry = Registry([one, two, rc, two])
    assert len(registry) == 3
    assert registry.find("order.place", "1.9") is one.plan
    assert registry.find("order.place", "2") is None
    assert registry.latest("order.place") is two.plan
    assert ("order.place", "1.9") in registry
    with pytest.raises(PlanRefused, match=r"order.place 2: is not registered here; registered: order.place 1.9, "):
        registry.get("order.place", "2")
    with pytest.raises(PlanRefused, match="registered: nothing"):
        Registry([]).latest("order.place")
    wrong: Any = "order.place"
    with pytest.raises(PlanRefused, match="takes Flow or Plan"):
        Registry([wrong])


def test_two_different_flows_under_one_version_are_refused() -> None:
    first = flow().step("a", act)
    assert len(Registry([first, flow().step("a", act)])) == 1
    twin = capability("act", version="1.0.0")(bare_async)
    for other in (flow().step("b", act), flow().step("a", twin), flow(deadline_s=1).step("a", act)):
        with pytest.raises(PlanRefused, match=r"order.place 1.2.0: is registered twice"):
            Registry([first, other])


async def bare_async(call: Call, value: Any) -> Any:
    return value


def test_scopes_nest_and_split() -> None:
    plan = everything().plan
    parallel, loop, choice = plan.node(2), plan.node(11), plan.node(8)
    assert child_scope("", parallel, 2) == "2/2"
    assert child_scope("2/2", loop, 3) == "2/2/11#3"
    assert child_scope("2/2", choice, 1) == "2/2"
    assert split_scope("2/2/11#3") == ("2/2/11#", 3)
    for wrong in ("", "7", "/2", "7/x", "7/0", "#1"):
        with pytest.raises(ValueError):
            split_scope(wrong)
