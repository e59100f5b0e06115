"""What the rig asks of an engine under test, and what it tells the engine about the work.

An engine is driven only through this protocol. It declares what it has (a journal, tokens, intents,
boundaries); what it does not declare is "not applicable" in the verdict, never a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from psycopg.sql import Composed

from ninelives_rig.refusal import Refused

if TYPE_CHECKING:
    from ninelives_rig.tools import NodeTools

EFFECTS = ("idempotent", "at_most_once", "transactional")
WORKLOAD_ENTERED = "workload.entered"
WORKLOAD_RETURNED = "workload.returned"


@dataclass(frozen=True)
class StepSpec:
    """One step of a workload.

    ``lead_s`` is how long the step works before its effect, ``service_s`` how long after it. A step with
    ``failures`` raises that often before it has any effect, and its engine is asked to try again after
    ``retry_delay_s``. A step of kind ``signal`` has no effect: it waits for the signal of its name.
    """

    name: str
    effect: str = "idempotent"
    service_s: float = 0.0
    failures: int = 0
    retry_delay_s: float = 0.05
    lead_s: float = 0.0
    kind: str = "step"

    def __post_init__(self) -> None:
        if self.effect not in EFFECTS:
            raise Refused(f"step {self.name!r}: effect {self.effect!r} is not one of {', '.join(EFFECTS)}")
        if self.kind not in ("step", "signal"):
            raise Refused(f"step {self.name!r}: kind {self.kind!r} is not one of step, signal")
        if min(self.lead_s, self.service_s, self.failures, self.retry_delay_s) < 0:
            raise Refused(f"step {self.name!r}: lead, service, failures and retry delay must not be negative")


@dataclass(frozen=True)
class LostAnswers:
    """A fault of connections: a node loses one, with the answer to an exchange that holds ``statement``.

    It hits every such exchange but the first, ``every``-th by ``every``-th, in each process anew. ``when`` is
    ``executed`` (the server has done it, and only the answer is lost) or ``unsent`` (it never arrives).
    """

    statement: str
    every: int
    when: str = "executed"

    def __post_init__(self) -> None:
        if self.when not in ("executed", "unsent") or self.every < 2:
            raise Refused(f"lost answers of {self.statement!r}: when is executed or unsent, every is 2 or more")


@dataclass(frozen=True)
class Workload:
    """A flow as the rig describes it: a name and steps in order, numbered from 1 as an engine's plan
    numbers them.
    """

    flow_name: str
    steps: tuple[StepSpec, ...]

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if not names or len(set(names)) != len(names):
            raise Refused(f"workload {self.flow_name!r} needs at least one step, each with its own name")

    @property
    def effects(self) -> frozenset[str]:
        """Every effect that a step of this workload declares."""
        return frozenset(step.effect for step in self.steps if step.kind == "step")

    @property
    def waits(self) -> tuple[tuple[int, str], ...]:
        """Step id and name of every wait for a signal."""
        return tuple((number, one.name) for number, one in enumerate(self.steps, 1) if one.kind == "signal")


@dataclass(frozen=True)
class Position:
    """Where an engine-neutral kill position lies: at ``boundary`` of the step ``step_offset`` behind the
    one meant.
    """

    boundary: str
    step_offset: int = 0


@dataclass(frozen=True)
class Capabilities:
    """What an engine has, as it declares it.

    ``boundaries`` lists every boundary its nodes report; ``positions`` maps the rig's kill positions onto
    them, and may say otherwise for one effect (``at_most_once.after-commit``). ``features`` are what arms may ask
    for beyond kills: ``signals`` (with pause and resume), ``bury``, ``lost_answers``, ``versions``.
    """

    journal: bool
    tokens: bool
    intents: bool
    effects: frozenset[str]
    boundaries: frozenset[str]
    positions: Mapping[str, Position]
    features: frozenset[str] = frozenset()

    def position(self, name: str, effect: str) -> Position:
        """Resolve a kill position or a boundary's own name; ``Refused`` says what there is."""
        for known_as in (f"{effect}.{name}", name):
            if known_as in self.positions:
                return self.positions[known_as]
        if name in self.boundaries:
            return Position(name)
        known = ", ".join(sorted([*self.positions, *self.boundaries]))
        raise Refused(f"this engine has no position {name!r}; it has {known}")


@dataclass(frozen=True)
class Store:
    """Where an arm's data lives: a server and a schema of its own."""

    dsn: str
    schema: str


@dataclass(frozen=True)
class Progress:
    """What the server shows of an arm: instances known, terminal ones, committed steps, instances taken
    over.
    """

    instances: int
    terminal: int
    steps: int
    takeovers: int

    @property
    def mark(self) -> tuple[int, int, int]:
        """A value that changes exactly when the arm moves."""
        return (self.instances, self.terminal, self.steps)

    @property
    def rows(self) -> int:
        """Committed rows."""
        return self.steps


@dataclass(frozen=True)
class NodeSettings:
    """Limits that a node runs under: how many flows it takes, and how many more of a dead node's."""

    ttl_s: float
    flows_max: int
    takeovers_max: int
    drain_s: float


@dataclass(frozen=True)
class NodeOrder:
    """Everything a node process needs to know, handed to it when it is forked. Plain data only."""

    process: str
    slot: str
    role: str
    engine: str
    store: Store
    workload: Workload
    settings: NodeSettings
    arm_root: Path
    work_root: Path
    start_indexes: Sequence[int]
    seed: int
    in_flight: int
    delivery: str = "sigkill"
    version: str = "1.0.0"
    lost_answers: Sequence[LostAnswers] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


class Running(Protocol):
    """An acknowledged start whose end can be waited for."""

    async def finished(self) -> None:
        """Return when the instance is terminal, however it ended."""


class Starter(Protocol):
    """Starts instances of the workload durably, by the rig's ids; repeating a start is safe."""

    async def start(self, index: int, instance_id: UUID) -> Running:
        """Return when the engine has acknowledged the start."""


class Operator(Protocol):
    """Sends signals, pauses and resumes, as a client would. Whatever raises is recorded and changes nothing else."""

    async def signal(self, instance_id: UUID, name: str, signal_id: str) -> str:
        """Return when the engine has acknowledged the signal, with what it said."""

    async def pause(self, instance_id: UUID) -> None:
        """Return when the engine has acknowledged the pause."""

    async def resume(self, instance_id: UUID) -> None:
        """Return when the engine has acknowledged the end of the pause."""


class Engine(Protocol):
    """A system under test. Everything that knows this engine is behind these methods."""

    name: str
    capabilities: Capabilities
    preload: tuple[str, ...]

    def prepare(self, store: Store) -> None:
        """Create the schema that the arm uses."""

    def discard(self, store: Store) -> None:
        """Remove what ``prepare`` made."""

    def client(self, store: Store, workload: Workload, version: str) -> AbstractAsyncContextManager[Starter]:
        """Open a client that starts instances in this version of the workload and runs none."""

    def operator(self, store: Store) -> AbstractAsyncContextManager[Operator]:
        """Open a client that operates instances; for engines with the feature ``signals``."""

    def bury(self, store: Store, process: str) -> bool:
        """Declare a living node dead in the store, and nothing else; false if the store does not know it yet.

        For engines with the feature ``bury``.
        """

    async def run_node(self, order: NodeOrder, tools: NodeTools) -> None:
        """Be a node until ``tools.stopping`` is set, then drain. Runs in the node's own process."""

    def progress_query(self, store: Store) -> Composed:
        """SQL for one row: instances, terminal, committed steps, takeovers."""

    def tables(self, store: Store) -> Mapping[str, Composed]:
        """SQL of each evidence table by its name in the bundle."""

    def is_refusal(self, error: Exception) -> bool:
        """Whether this error of a start says for certain that nothing was started."""
