"""The flows a node carries: checked when they are registered, found by id and version."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .errors import PlanRefused
from .flow import Flow
from .plan import AwaitSignal, Node, Plan, Step

_NOT_YET = {
    "delay": "delays",
    "emit": "emitted events",
    "parallel": "parallel branches",
    "for_each": "for-each",
    "choice": "choices",
    "loop": "loops",
    "subflow": "sub-flows",
}


class Registry:
    """The plans of a set of flows, by (id, version).

    Raises PlanRefused, naming the place, for a flow that is wrong, for a shape this release cannot run, and for
    two different flows under one id and version. The same flow twice is one entry.
    """

    __slots__ = ("_plans",)

    def __init__(self, flows: Iterable[Flow | Plan]) -> None:
        self._plans: dict[tuple[str, str], Plan] = {}
        for flow in flows:
            self._add(_plan_of(flow))

    def _add(self, plan: Plan) -> None:
        check_runnable(plan)
        known = self._plans.setdefault((plan.flow_id, plan.version), plan)
        if known is not plan and not _interchangeable(known, plan):
            raise PlanRefused(
                str(plan), "is registered twice with different contents; give the changed flow a new version"
            )

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Every plan, in the order of registration."""
        return tuple(self._plans.values())

    def find(self, flow_id: str, version: str) -> Plan | None:
        """Return the plan, or None when this node does not carry it."""
        return self._plans.get((flow_id, version))

    def get(self, flow_id: str, version: str) -> Plan:
        """Return the plan. Raises PlanRefused, listing what is carried, when this node does not carry it."""
        plan = self._plans.get((flow_id, version))
        if plan is None:
            raise PlanRefused(f"{flow_id} {version}", f"is not registered here; registered: {self._listed()}")
        return plan

    def latest(self, flow_id: str) -> Plan:
        """Return the highest version of a flow (a pre-release is below its release). Raises PlanRefused."""
        versions = [plan for plan in self._plans.values() if plan.flow_id == flow_id]
        if not versions:
            raise PlanRefused(flow_id, f"is not registered here; registered: {self._listed()}")
        return max(versions, key=lambda plan: version_key(plan.version))

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._plans

    def __len__(self) -> int:
        return len(self._plans)

    def _listed(self) -> str:
        return ", ".join(str(plan) for plan in self._plans.values()) or "nothing"


def check_runnable(plan: Plan) -> None:
    """Refuse, naming the place, a plan with a shape that this release cannot run."""
    for node in plan.all_nodes:
        missing = _missing(node)
        if missing is not None:
            raise PlanRefused(
                f"{plan}, {node.kind} {node.name!r}",
                f"{missing} cannot run in this release; it runs steps and signals without a time-out, in sequence",
            )


def version_key(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """Return a sort key: numbers by value, missing ones as 0, a pre-release below its release."""
    numbers, dash, label = version.partition("+")[0].partition("-")
    values = [int(number) for number in numbers.split(".")]
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"[.]", label) if part
    )
    return tuple(values + [0] * (4 - len(values))), not dash, parts


def _missing(node: Node) -> str | None:
    if isinstance(node, Step):
        return None if node.undo is None else "undo (compensation)"
    if isinstance(node, AwaitSignal):
        return None if node.timeout_s is None else "a time-out on a signal"
    return _NOT_YET[node.kind]


def _plan_of(flow: object) -> Plan:
    if isinstance(flow, Plan):
        return flow
    if isinstance(flow, Flow):
        return flow.plan
    raise PlanRefused("registry", f"takes Flow or Plan objects, got {type(flow).__name__} {flow!r}")


def _interchangeable(one: Plan, other: Plan) -> bool:
    """Tell whether two plans are one definition built twice: the same structure over the same capability objects."""
    if one.fingerprint != other.fingerprint or one.deadline_s != other.deadline_s:
        return False
    return all(
        not isinstance(left, Step)
        or (isinstance(right, Step) and left.capability is right.capability and left.retry == right.retry)
        for left, right in zip(one.all_nodes, other.all_nodes, strict=True)
    )
