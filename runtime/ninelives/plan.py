"""The static plan of a flow: frozen nodes, numbered depth first from 1, with a fingerprint of their structure.

Scopes say where in the plan a row belongs: `''` is the flow itself, `7/2` the second branch or element of step 7,
`7#2` the second iteration of loop 7, and they nest: `7/2/9#4`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from .capability import Capability
from .errors import PlanRefused
from .retry import RetryPolicy

if TYPE_CHECKING:
    from .state import State

Selector = Callable[["State"], Any]


@dataclass(frozen=True, slots=True)
class Merge:
    """When a parallel node counts as successful; `needed` is the number of branches of a quorum."""

    kind: str
    needed: int | None = None


ALL_MUST_SUCCEED = Merge("all_must_succeed")
ALL_SETTLED = Merge("all_settled")
FIRST_SUCCESS = Merge("first_success")


def quorum(needed: int) -> Merge:
    """Succeed as soon as `needed` branches have succeeded."""
    return Merge("quorum", needed)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Run a capability. `input` is a selector over the state, a JSON constant, or None for the flow's input."""

    kind: ClassVar[str] = "step"
    step_id: int
    name: str
    capability: Capability
    input: Any
    undo: Capability | None
    retry: RetryPolicy
    timeout_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class AwaitSignal:
    """Wait for the signal called like the node; its payload is the result. `timeout_s` None waits for ever."""

    kind: ClassVar[str] = "await_signal"
    step_id: int
    name: str
    timeout_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Delay:
    """Wait `delay_s` seconds by the database's clock."""

    kind: ClassVar[str] = "delay"
    step_id: int
    name: str
    delay_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Emit:
    """Stage an event in the outbox; `key` and `payload` are selectors or constants."""

    kind: ClassVar[str] = "emit"
    step_id: int
    name: str
    event_type: str
    key: Any
    payload: Any


@dataclass(frozen=True, slots=True, eq=False)
class BranchPlan:
    """One branch of a parallel node (`index` from 1), or one case of a choice (`when` None: otherwise)."""

    index: int
    name: str
    nodes: tuple[Node, ...]
    when: Selector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Parallel:
    """Run branches side by side and join them by `merge`."""

    kind: ClassVar[str] = "parallel"
    step_id: int
    name: str
    branches: tuple[BranchPlan, ...]
    merge: Merge


@dataclass(frozen=True, slots=True, eq=False)
class ForEach:
    """Run the nodes once per element of `over(state)`, at most `in_flight_max` at once (None: all)."""

    kind: ClassVar[str] = "for_each"
    step_id: int
    name: str
    nodes: tuple[Node, ...]
    over: Selector
    in_flight_max: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Run the first case whose `when(state)` holds."""

    kind: ClassVar[str] = "choice"
    step_id: int
    name: str
    cases: tuple[BranchPlan, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Run the nodes while `condition(state)` holds, at most `iterations_max` times."""

    kind: ClassVar[str] = "loop"
    step_id: int
    name: str
    nodes: tuple[Node, ...]
    condition: Selector
    iterations_max: int


@dataclass(frozen=True, slots=True, eq=False)
class SubFlow:
    """Start another flow as an instance of its own; a detached one is not waited for."""

    kind: ClassVar[str] = "subflow"
    step_id: int
    name: str
    flow_id: str
    version: str
    input: Any
    detached: bool


Node = Step | AwaitSignal | Delay | Emit | Parallel | ForEach | Choice | Loop | SubFlow


def inner_branches(node: Node) -> tuple[BranchPlan, ...]:
    """Return what a node contains, as branches; for-each and loop contain one, a leaf none."""
    if isinstance(node, Parallel):
        return node.branches
    if isinstance(node, Choice):
        return node.cases
    if isinstance(node, (ForEach, Loop)):
        return (BranchPlan(1, node.name, node.nodes),)
    return ()


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Yield every node depth first, which is the order of their ids."""
    for node in nodes:
        yield node
        for branch in inner_branches(node):
            yield from walk(branch.nodes)


def child_scope(scope: str, node: Node, index: int) -> str:
    """Return the scope of branch, element or iteration `index` (from 1) of a node; a choice opens none."""
    if isinstance(node, Choice):
        return scope
    sign = "#" if isinstance(node, Loop) else "/"
    return f"{scope}/{node.step_id}{sign}{index}" if scope else f"{node.step_id}{sign}{index}"


def split_scope(scope: str) -> tuple[str, int]:
    """Split a nested scope into its family (`7/2/9#`, ending with the sign) and its index. Raises ValueError."""
    cut = max(scope.rfind("/"), scope.rfind("#")) + 1
    index = int(scope[cut:])
    if cut < 2 or index < 1:
        raise ValueError(f"scope {scope!r} is not of the form 7/2 or 7#2")
    return scope[:cut], index


@dataclass(frozen=True, eq=False)
class Plan:
    """A checked flow: its top nodes, deadline in seconds from its start (None: none), and fingerprint.

    The fingerprint covers what a running instance depends on: names, kinds, capability ids and versions,
    effect kinds, time-outs and the nesting; not input selectors, retry policies or the deadline.
    """

    flow_id: str
    version: str
    nodes: tuple[Node, ...]
    deadline_s: float | None = None
    # Filled by decide(): the ready-made answer for every position of a plain sequence.
    prepared: list[Any] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def all_nodes(self) -> tuple[Node, ...]:
        """Every node, in the order of their ids."""
        return tuple(walk(self.nodes))

    @cached_property
    def ids_by_name(self) -> dict[str, int]:
        """The step id of every name."""
        return {node.name: node.step_id for node in self.all_nodes}

    @cached_property
    def is_sequence(self) -> bool:
        """Whether the plan is steps and waits one after the other, and nothing else."""
        return all(isinstance(node, (Step, AwaitSignal)) for node in self.nodes)

    @cached_property
    def containers(self) -> dict[int, tuple[tuple[Node, int], ...]]:
        """For every step id the nodes it lies in, outermost first, each with the branch's index."""
        found: dict[int, tuple[tuple[Node, int], ...]] = {}
        pending: list[tuple[tuple[Node, ...], tuple[tuple[Node, int], ...]]] = [(self.nodes, ())]
        while pending:
            nodes, path = pending.pop()
            for node in nodes:
                found[node.step_id] = path
                pending.extend((branch.nodes, (*path, (node, branch.index))) for branch in inner_branches(node))
        return found

    @cached_property
    def fingerprint(self) -> str:
        """Sha256 in hex of the plan's structure."""
        shape = [self.flow_id, self.version, [_shape(node) for node in self.nodes]]
        return sha256(orjson.dumps(shape, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def node(self, step_id: int) -> Node:
        """Return the node of a step id. Raises PlanRefused for an id the plan does not have."""
        if 1 <= step_id <= len(self.all_nodes):
            return self.all_nodes[step_id - 1]
        raise PlanRefused(str(self), f"has steps 1 to {len(self.all_nodes)}, not {step_id}; use its own version")

    def describe(self) -> dict[str, Any]:
        """Return the plan as a JSON value, to be stored beside its fingerprint, drawn and compared."""
        return {
            "flow_id": self.flow_id,
            "version": self.version,
            "deadline_s": self.deadline_s,
            "fingerprint": self.fingerprint,
            "nodes": [{"step_id": node.step_id, **_shape(node, numbered=True)} for node in self.nodes],
        }

    def __str__(self) -> str:
        return f"{self.flow_id} {self.version}"


def _capability_shape(capability: Capability) -> dict[str, Any]:
    return {"id": capability.id, "version": capability.version, "effect": capability.effect.kind}


def _shape(node: Node, *, numbered: bool = False) -> dict[str, Any]:
    shape: dict[str, Any] = {"kind": node.kind, "name": node.name}
    if isinstance(node, Step):
        shape["capability"] = _capability_shape(node.capability)
        shape["undo"] = None if node.undo is None else _capability_shape(node.undo)
        shape["timeout_s"] = node.timeout_s
    elif isinstance(node, AwaitSignal):
        shape["timeout_s"] = node.timeout_s
    elif isinstance(node, Delay):
        shape["delay_s"] = node.delay_s
    elif isinstance(node, Emit):
        shape["event_type"] = node.event_type
    elif isinstance(node, Parallel):
        shape["merge"] = [node.merge.kind, node.merge.needed]
    elif isinstance(node, ForEach):
        shape["in_flight_max"] = node.in_flight_max
    elif isinstance(node, Loop):
        shape["iterations_max"] = node.iterations_max
    elif isinstance(node, SubFlow):
        shape["flow"] = [node.flow_id, node.version, node.detached]
    if branches := inner_branches(node):
        shape["branches"] = [
            {
                "name": branch.name,
                "otherwise": isinstance(node, Choice) and branch.when is None,
                "nodes": [
                    {"step_id": inner.step_id, **_shape(inner, numbered=True)} if numbered else _shape(inner)
                    for inner in branch.nodes
                ],
            }
            for branch in branches
        ]
    return shape
