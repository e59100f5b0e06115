"""One configuration, worked out once: plans, rules, bounds, and the lock list of every operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.model.plan import AT_MOST_ONCE, SIGNAL, TASK, Plan, parents
from tests.model.rules import PROTOCOL, Rules

# Faults and optional acts of clients; a configuration says how often each may happen.
FAULTS: Final = (
    "crash", "freeze", "false death", "lost answer", "repeated signal", "pause", "terminate", "task expiry",
    "server restart", "flush", "worker crash", "late execution", "redis expiry",
    "client freeze",
)  # fmt: skip
(
    CRASH, FREEZE, FALSE_DEATH, LOST_ANSWER, REPEATED_SIGNAL, PAUSE, TERMINATE, TASK_EXPIRY,
    SERVER_RESTART, FLUSH, WORKER_CRASH, LATE_EXECUTION, REDIS_EXPIRY,
    CLIENT_FREEZE,
) = range(len(FAULTS))  # fmt: skip

SESSIONS_PER_NODE = 100


class Setting:
    """What does not change while a configuration is explored.

    ``at_locks`` splits each operation of a node at its locks, so that others get in between. ``folded_start`` starts
    and claims at once, ``folded_finish`` ends an instance with its last commit. ``slots`` is activations per node.
    Where not ``signals_come``, no client has to send them; ``signals_at_locks`` lets a client freeze inside of one.
    ``ignored`` names invariants that are not judged, so that a mutant shows what else it breaks.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        faults: Mapping[str, int],
        rules: Rules = PROTOCOL,
        *,
        nodes: int = 2,
        slots: int = 1,
        at_locks: bool = False,
        folded_start: bool = False,
        folded_finish: bool = False,
        deadline: bool = False,
        signals_come: bool = True,
        signals_at_locks: bool = False,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        assert set(faults) <= set(FAULTS), sorted(set(faults) - set(FAULTS))
        self.plans = tuple(plans)
        self.rules = rules
        self.nodes, self.slots = nodes, slots
        self.at_locks = at_locks
        self.folded_start, self.folded_finish = folded_start, folded_finish
        self.deadline, self.signals_come, self.signals_at_locks = deadline, signals_come, signals_at_locks
        self.ignored = ignored
        self.bounds = tuple(faults.get(fault, 0) for fault in FAULTS)
        self.parents = parents(plans)
        self.signals = sum(step.kind == SIGNAL for plan in plans for step in plan.steps)
        self.has_effects = any(plan.has(AT_MOST_ONCE) for plan in plans)
        self.task_instance = next((i for i, plan in enumerate(plans) if plan.has(TASK)), None)
        self.locks = {
            (operation, i): self._locks(operation, i)
            for operation in ("claim", "commit", "last commit", "park", "finish", "time out", "release")
            for i in range(len(plans))
        }
        self.names = [f"node {n}{'abc'[a] if slots > 1 else ''}" for n in range(nodes) for a in range(slots)]
        self.decisions: dict[object, object] = {}

    def _locks(self, operation: str, i: int) -> tuple[int, ...]:
        """Return the rows that an operation on instance ``i`` locks, in order: 2i is its wake, 2i + 1 the instance."""
        parent = self.parents[i]
        match operation:
            case "commit":
                return (2 * i + 1,)
            case "claim" | "park":
                return (2 * i, 2 * i + 1)
            case "finish" | "last commit" | "time out":
                wakes = [2 * i] if parent is None or not self.rules.end_wakes_parent else sorted((2 * i, 2 * parent))
                return (*wakes, 2 * i + 1)
        return (2 * i,)


def session_id(node: int, generation: int) -> int:
    """Return what a wake row names as its holder."""
    return node * SESSIONS_PER_NODE + generation


def node_of(session: int) -> int:
    """Return whose session it is; -1 for nobody's."""
    return session // SESSIONS_PER_NODE
