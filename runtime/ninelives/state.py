"""The read-only view of an instance's state that `input=` selectors, conditions and `over=` are given."""

from __future__ import annotations

from typing import Any

from . import codec
from .frontier import Frontier
from .plan import Choice, ForEach, Loop, Plan, Step, child_scope


class State:
    """`state["name"]` is the result of a finished step, `state.input` the flow's input.

    Both return independent copies: what a selector or body does to them cannot reach a later step, which would
    see the change in a straight run and not after a resume. `scope` is where the asking step stands.
    """

    __slots__ = ("_frontier", "_input", "_plan", "_scope")

    def __init__(self, input: Any, plan: Plan | None = None, frontier: Frontier | None = None, scope: str = "") -> None:
        self._input = input
        self._plan = plan
        self._frontier = frontier
        self._scope = scope

    @property
    def input(self) -> Any:
        """The flow's input."""
        return codec.fresh(self._input)

    def __getitem__(self, name: str) -> Any:
        """Return a step's result. Raises KeyError, listing what is finished, when there is none yet."""
        scope, step_id = self._locate(name)
        assert self._frontier is not None  # _locate has found the name
        if not self._frontier.is_done(scope, step_id):
            raise KeyError(f"step {name!r} is not finished; finished: {self._listed()}")
        return self._frontier.result(scope, step_id)

    def __contains__(self, name: str) -> bool:
        try:
            scope, step_id = self._locate(name)
        except KeyError:
            return False
        return self._frontier is not None and self._frontier.is_done(scope, step_id)

    def finished(self) -> list[str]:
        """Return the names that `state[name]` answers here, in the plan's order."""
        return [] if self._plan is None else [name for name in self._plan.ids_by_name if name in self]

    def _listed(self) -> str:
        return ", ".join(self.finished()) or "nothing"

    def _locate(self, name: str) -> tuple[str, int]:
        plan, frontier = self._plan, self._frontier
        if plan is None or frontier is None:
            raise KeyError(f"step {name!r} is not finished; finished: nothing")
        step_id = plan.ids_by_name.get(name)
        if step_id is None:
            raise KeyError(f"{plan} has no step {name!r}; finished: {self._listed()}")
        scope = ""
        for node, index in plan.containers[step_id]:
            if isinstance(node, Choice):
                continue
            if isinstance(node, (ForEach, Loop)):
                family = child_scope(scope, node, 1)[:-1]
                index = _own_index(self._scope, family)
                if not index and isinstance(node, Loop):
                    index = frontier.iteration(family) or 1
                if not index:
                    raise KeyError(f"step {name!r} runs once per element of {node.name!r}; use state[{node.name!r}]")
            scope = child_scope(scope, node, index)
        return scope, step_id


def value_for(node: Step, plan: Plan, frontier: Frontier, scope: str = "") -> Any:
    """Return what a step's body gets as its value: an independent copy of what its `input=` selects.

    A selector's own exception goes through: it is a failure of the step.
    """
    selected = node.input
    if selected is None:
        return codec.fresh(frontier.input)
    if callable(selected):
        return selected(State(frontier.input, plan, frontier, scope))
    return codec.copy(selected)


def _own_index(scope: str, family: str) -> int:
    """Return the index within a family that a scope lies in, 0 when it lies elsewhere."""
    if not scope.startswith(family):
        return 0
    return int(scope[len(family) :].partition("/")[0].partition("#")[0])
