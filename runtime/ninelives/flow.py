"""The builder of flows: `Flow("order.place", version="1.2.0").step(...).await_signal(...)`.

Every call returns a new builder, so that a common beginning can be shared. Nothing is checked until the plan
is built; then what is wrong is refused with its place named.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

from . import codec
from .capability import Capability, check_id, check_timeout, check_version
from .errors import PayloadRefused, PlanRefused
from .plan import (
    ALL_MUST_SUCCEED,
    AwaitSignal,
    BranchPlan,
    Choice,
    Delay,
    Emit,
    ForEach,
    Loop,
    Merge,
    Node,
    Parallel,
    Plan,
    Selector,
    Step,
    SubFlow,
)
from .retry import RetryPolicy

CONSTANT_BYTES_MAX = 65_536
DEPTH_MAX = 32
STEPS_MAX = 1_000_000
_MERGES = frozenset({"all_must_succeed", "all_settled", "first_success", "quorum"})


class _Numbering:
    """Gives ids in plan order and refuses names that cannot stand."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._places: dict[str, str] = {}
        self._depth = 0

    def open(self, kind: str, name: object) -> tuple[int, str]:
        """Return the next step id and the place to name in a refusal."""
        place = f"{self.place}, {kind} {name!r}"
        check_id(place, "its name", name)
        assert isinstance(name, str)
        if name in self._places:
            raise PlanRefused(place, f"the name is taken by {self._places[name]}; names are unique in a flow")
        if len(self._places) >= STEPS_MAX:
            raise PlanRefused(self.place, f"has more than {STEPS_MAX} steps; use a loop or a sub-flow")
        self._places[name] = f"{kind} {len(self._places) + 1}"
        return len(self._places), place

    def sequence(self, place: str, steps: _Steps) -> tuple[Node, ...]:
        """Number what a builder holds. Refuses an empty one and nesting deeper than DEPTH_MAX."""
        if not steps._parts:
            raise PlanRefused(place, "has no steps; add at least one")
        if self._depth >= DEPTH_MAX:
            raise PlanRefused(place, f"is nested deeper than {DEPTH_MAX} levels; use a sub-flow")
        self._depth += 1
        nodes = tuple(make(self) for make in steps._parts)
        self._depth -= 1
        return nodes

    def branch(self, place: str, index: int, branch: object, when: Selector | None = None) -> BranchPlan:
        """Number one branch of a parallel node or one case of a choice."""
        if not isinstance(branch, (Branch, Case)):
            raise PlanRefused(place, f"takes Branch(...) or Case(...) builders, got {type(branch).__name__}")
        inner = f"{place}, branch {branch.name!r}"
        check_id(inner, "its name", branch.name)
        return BranchPlan(index, branch.name, self.sequence(inner, branch), when)


_Make = Callable[[_Numbering], Node]


class _Steps:
    """What flows, branches and cases have in common: an immutable list of parts."""

    __slots__ = ("_parts",)
    _parts: tuple[_Make, ...]

    def _with(self, parts: tuple[_Make, ...]) -> Self:
        raise NotImplementedError

    def _then(self, make: _Make) -> Self:
        return self._with((*self._parts, make))

    def step(
        self,
        name: str,
        capability: Capability,
        input: Any = None,
        undo: Capability | None = None,
        retry: RetryPolicy | None = None,
        timeout_s: float | None = None,
    ) -> Self:
        """Run a capability.

        `input` is a selector over the state, a JSON constant, or None for the flow's input; `undo` compensates the
        step; `retry` and `timeout_s` (seconds, one attempt) replace the capability's own.
        """

        def make(numbering: _Numbering) -> Step:
            step_id, place = numbering.open("step", name)
            _check_capability(place, "its capability", capability)
            if undo is not None:
                _check_capability(place, "its undo", undo)
            _check_input(place, "input", input)
            if retry is not None and not isinstance(retry, RetryPolicy):
                raise PlanRefused(place, f"retry must be a RetryPolicy, got {type(retry).__name__}")
            check_timeout(place, "timeout_s", timeout_s)
            return Step(
                step_id,
                name,
                capability,
                input,
                undo,
                capability.retry if retry is None else retry,
                capability.timeout_s if timeout_s is None else timeout_s,
            )

        return self._then(make)

    def await_signal(self, name: str, timeout_s: float | None = None) -> Self:
        """Wait for the signal `name`; its payload becomes the result. `timeout_s` is seconds, None for ever."""

        def make(numbering: _Numbering) -> AwaitSignal:
            step_id, place = numbering.open("await_signal", name)
            check_timeout(place, "timeout_s", timeout_s)
            return AwaitSignal(step_id, name, timeout_s)

        return self._then(make)

    def delay(self, name: str, delay_s: float) -> Self:
        """Wait `delay_s` seconds."""

        def make(numbering: _Numbering) -> Delay:
            step_id, place = numbering.open("delay", name)
            if delay_s is None:
                raise PlanRefused(place, "delay_s must be a number of seconds")
            check_timeout(place, "delay_s", delay_s)
            return Delay(step_id, name, delay_s)

        return self._then(make)

    def emit(self, event_type: str, key: Any = None, payload: Any = None, name: str | None = None) -> Self:
        """Stage an event; `key` (ordering) and `payload` are selectors or constants; the name is the type's."""

        def make(numbering: _Numbering) -> Emit:
            step_id, place = numbering.open("emit", event_type if name is None else name)
            check_id(place, "its event type", event_type)
            _check_input(place, "key", key)
            _check_input(place, "payload", payload)
            return Emit(step_id, event_type if name is None else name, event_type, key, payload)

        return self._then(make)

    def parallel(self, *branches: Branch, merge: Merge = ALL_MUST_SUCCEED, name: str | None = None) -> Self:
        """Run branches side by side; without a name the node is called like its branches, joined by `-`."""

        def make(numbering: _Numbering) -> Parallel:
            called = "-".join(str(getattr(branch, "name", "?")) for branch in branches) if name is None else name
            step_id, place = numbering.open("parallel", called)
            if not branches:
                raise PlanRefused(place, "has no branches; pass Branch(...) builders")
            _check_merge(place, merge, len(branches))
            made = tuple(numbering.branch(place, index, branch) for index, branch in enumerate(branches, 1))
            _check_distinct(place, made)
            return Parallel(step_id, called, made, merge)

        return self._then(make)

    def for_each(
        self, name: str, body: Capability | Branch, *, over: Selector, in_flight_max: int | None = None
    ) -> Self:
        """Run a capability, or a branch of steps, for every element of `over(state)`."""

        def make(numbering: _Numbering) -> ForEach:
            step_id, place = numbering.open("for_each", name)
            _check_selector(place, "over", over)
            _check_count(place, "in_flight_max", in_flight_max)
            return ForEach(step_id, name, _body(numbering, place, name, body), over, in_flight_max)

        return self._then(make)

    def choice(self, name: str, *cases: Case, otherwise: Branch | None = None) -> Self:
        """Run the first case whose condition holds, or `otherwise`."""

        def make(numbering: _Numbering) -> Choice:
            step_id, place = numbering.open("choice", name)
            if not cases:
                raise PlanRefused(place, "has no cases, so nothing but `otherwise` could be reached; pass Case(...)")
            made = []
            for index, case in enumerate(cases, 1):
                when = getattr(case, "when", None)
                _check_selector(f"{place}, case {index}", "when", when)
                made.append(numbering.branch(place, index, case, when))
            if otherwise is not None:
                made.append(numbering.branch(place, len(cases) + 1, otherwise))
            _check_distinct(place, tuple(made))
            return Choice(step_id, name, tuple(made))

        return self._then(make)

    def loop(self, name: str, body: Capability | Branch, *, condition: Selector, iterations_max: int) -> Self:
        """Run the body while `condition(state)` holds, at most `iterations_max` times."""

        def make(numbering: _Numbering) -> Loop:
            step_id, place = numbering.open("loop", name)
            _check_selector(place, "condition", condition)
            if iterations_max is None:
                raise PlanRefused(place, "iterations_max must be a whole number; a loop without end is refused")
            _check_count(place, "iterations_max", iterations_max)
            return Loop(step_id, name, _body(numbering, place, name, body), condition, iterations_max)

        return self._then(make)

    def subflow(self, name: str, flow: Flow, input: Any = None, detached: bool = False) -> Self:
        """Start another flow as an instance of its own and, unless detached, wait for its result."""

        def make(numbering: _Numbering) -> SubFlow:
            step_id, place = numbering.open("subflow", name)
            if not isinstance(flow, Flow):
                raise PlanRefused(place, f"flow must be a Flow, got {type(flow).__name__}")
            check_id(place, "its flow id", flow.id)
            check_version(place, flow.version)
            _check_input(place, "input", input)
            return SubFlow(step_id, name, flow.id, flow.version, input, bool(detached))

        return self._then(make)


class Branch(_Steps):
    """A named sequence inside a parallel node, a for-each or a loop."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._parts = ()

    def _with(self, parts: tuple[_Make, ...]) -> Self:
        made = type(self)(self.name)
        made._parts = parts
        return made


class Case(_Steps):
    """A named sequence inside a choice, taken when `when(state)` holds."""

    __slots__ = ("name", "when")

    def __init__(self, name: str, when: Selector) -> None:
        self.name = name
        self.when = when
        self._parts = ()

    def _with(self, parts: tuple[_Make, ...]) -> Self:
        made = type(self)(self.name, self.when)
        made._parts = parts
        return made


class Flow(_Steps):
    """A flow under construction; `deadline_s` is seconds from its start, None for none."""

    __slots__ = ("_plan", "deadline_s", "id", "version")

    def __init__(self, id: str, *, version: str, deadline_s: float | None = None) -> None:
        self.id = id
        self.version = version
        self.deadline_s = deadline_s
        self._parts = ()
        self._plan: Plan | None = None

    def _with(self, parts: tuple[_Make, ...]) -> Self:
        made = type(self)(self.id, version=self.version, deadline_s=self.deadline_s)
        made._parts = parts
        return made

    @property
    def plan(self) -> Plan:
        """The plan, built and checked on first use. Raises PlanRefused with the place of what is wrong."""
        if self._plan is None:
            place = f"{self.id} {self.version}"
            check_id(place, "the flow's id", self.id)
            check_version(place, self.version)
            check_timeout(place, "deadline_s", self.deadline_s)
            nodes = _Numbering(place).sequence(place, self)
            self._plan = Plan(self.id, self.version, nodes, self.deadline_s)
        return self._plan

    def __repr__(self) -> str:
        return f"<flow {self.id} {self.version}, {len(self._parts)} parts>"


def _check_capability(place: str, what: str, capability: object) -> None:
    if not isinstance(capability, Capability):
        raise PlanRefused(
            place,
            f"{what} must be made by @capability(...), got {type(capability).__name__} "
            f"{getattr(capability, '__name__', capability)!r}; decorate it",
        )


def _check_selector(place: str, what: str, selector: object) -> None:
    if not callable(selector):
        raise PlanRefused(place, f"{what} must be a function of the state, got {type(selector).__name__}")
    if isinstance(selector, Capability) or inspect.iscoroutinefunction(selector):
        raise PlanRefused(place, f"{what} must be a plain function of the state; do I/O in a step instead")
    try:
        inspect.signature(selector).bind(None)
    except TypeError:
        raise PlanRefused(place, f"{what} must take one argument, the state") from None
    except ValueError:
        return  # some built-ins have no signature; they fail, if they do, in the step


def _check_input(place: str, what: str, value: object) -> None:
    if callable(value):
        _check_selector(place, what, value)
        return
    try:
        codec.encode(value, limit_bytes=CONSTANT_BYTES_MAX, what=what)
    except PayloadRefused as refused:
        raise PlanRefused(place, f"the constant cannot be stored: {refused}") from None


def _check_count(place: str, what: str, count: object) -> None:
    if count is not None and (type(count) is not int or not 1 <= count <= STEPS_MAX):
        raise PlanRefused(place, f"{what} must be a whole number in 1..{STEPS_MAX}, got {count!r}")


def _check_merge(place: str, merge: object, branches: int) -> None:
    if not isinstance(merge, Merge) or merge.kind not in _MERGES:
        raise PlanRefused(place, f"merge must be one of {', '.join(sorted(_MERGES))}, got {merge!r}")
    needed = merge.needed
    if (merge.kind == "quorum") != (needed is not None):
        raise PlanRefused(place, "a quorum, and nothing else, says how many branches it needs: quorum(2)")
    if needed is not None and (type(needed) is not int or not 1 <= needed <= branches):
        raise PlanRefused(place, f"the quorum must be in 1..{branches}, got {needed!r}")


def _check_distinct(place: str, branches: tuple[BranchPlan, ...]) -> None:
    names = [branch.name for branch in branches]
    for name in names:
        if names.count(name) > 1:
            raise PlanRefused(place, f"has two branches called {name!r}; rename one")


def _body(numbering: _Numbering, place: str, name: str, body: object) -> tuple[Node, ...]:
    if isinstance(body, Branch):
        return numbering.sequence(place, body)
    if not isinstance(body, Capability):
        raise PlanRefused(place, f"its body must be a capability or a Branch(...), got {type(body).__name__}")
    return numbering.sequence(place, Branch(name).step(f"{name}.each", body))
