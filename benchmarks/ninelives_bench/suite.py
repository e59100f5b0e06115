"""The measurements as data: how long, how often and how much, for the full ladder and for the quick look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class ReferencePlan:
    """What PostgreSQL does by itself."""

    pgbench_s: int
    pgbench_clients: int
    raw_s: float
    raw_rows: int
    fdatasync_count: int


@dataclass(frozen=True, slots=True)
class B7Plan:
    """Durable step commits."""

    population: int
    """Instances that commits go to; at most one commit of each is in flight."""
    depth_max: int
    """An instance is replaced by a fresh one when it has so many steps."""
    result_bytes: int
    poisson_per_s: tuple[int, ...]
    fixed_per_s: tuple[int, ...]
    tcp_per_s: tuple[int, ...]
    two_nodes_per_s: tuple[int, ...]
    checkpointed_per_s: tuple[int, ...]
    """Arms that run across a timed checkpoint."""
    checkpointed_s: float
    warmup_s: float
    arm_s: float
    saturation_in_flight: int
    saturation_s: float
    saturation_long_s: float | None
    """None: not measured in this plan."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """Whole flows, durable start to terminal."""

    in_flight: int
    warmup_s: float
    closed_steps: tuple[int, ...]
    """Steps of a flow in each closed-loop arm."""
    closed_s: float
    long_s: float | None
    """Duration of the closed-loop arm of three-step flows that shows whether speed lasts; None: not measured."""
    open_flows_per_s: tuple[int, ...]
    """Open-loop arms of three-step flows: start-to-finish latency."""
    open_s: float
    nodes: tuple[int, ...]
    """Numbers of nodes of the three-step closed-loop arm."""


@dataclass(frozen=True, slots=True)
class B8Plan:
    """Rehydration through the runtime's takeover."""

    depths: tuple[int, ...]
    instances: int
    """Taken one at a time, each once, for each arm of a depth up to `deep`."""
    deep: int
    deep_instances: int
    """Taken where the depth is greater than `deep`: making them dominates the run."""
    load_per_s: int
    loaded_depths: tuple[int, ...]
    cold_depths: tuple[int, ...]
    batch_instances: int
    batch_repeats: int


@dataclass(frozen=True, slots=True)
class TakeoverPlan:
    """SIGKILL of a node that holds instances, until all are finished elsewhere."""

    instances: int
    repeats: int


@dataclass(frozen=True, slots=True)
class RenewalPlan:
    """One heartbeat over many leases."""

    leases: int
    repeats: int


@dataclass(frozen=True, slots=True)
class DeathPlan:
    """Until a neighbour sees that a node is gone."""

    arms: tuple[str, ...]
    repeats: int
    frozen_repeats: int
    frozen_ttl_s: float


@dataclass(frozen=True, slots=True)
class ClaimsPlan:
    """Claims while many instances are parked."""

    parked: tuple[int, ...]
    repeats: int


@dataclass(frozen=True, slots=True)
class SustainedPlan:
    """Commits at one rate for long, with checkpoints and autovacuum."""

    rate_per_s: int
    seconds: float
    window_s: float
    checkpoint_timeout_s: int


SERVER_OPTIONS: Final[Mapping[str, str]] = {"wal_buffers": "16MB", "max_wal_size": "16GB", "min_wal_size": "4GB"}
"""The journal that an operator gives a server whose work is commits: room between checkpoints, and segments that are
used again instead of made anew. Durability is as everywhere. (More shared_buffers than the rig's changed nothing.)"""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: which measurements, and how much of each."""

    quick: bool
    seed: int = 1
    server_options: Mapping[str, str | int | float | bool] = field(default_factory=lambda: dict(SERVER_OPTIONS))
    """Server settings over the rig's own; the rig's cluster has fsync and synchronous_commit on."""
    reference: ReferencePlan = ReferencePlan(20, 32, 5.0, 500, 2_000)
    b7: B7Plan = B7Plan(
        population=50_000, depth_max=64, result_bytes=200,
        poisson_per_s=(1_000, 5_000, 10_000, 20_000, 30_000), fixed_per_s=(5_000, 10_000), tcp_per_s=(5_000, 10_000),
        two_nodes_per_s=(5_000, 10_000, 20_000), checkpointed_per_s=(5_000, 10_000), checkpointed_s=70.0,
        warmup_s=3.0, arm_s=15.0, saturation_in_flight=2_000, saturation_s=10.0, saturation_long_s=60.0,
    )  # fmt: skip
    engine: EnginePlan = EnginePlan(
        in_flight=2_000, warmup_s=3.0, closed_steps=(3, 20, 1_000), closed_s=15.0, long_s=180.0,
        open_flows_per_s=(50, 1_000, 3_000), open_s=20.0, nodes=(1, 2),
    )  # fmt: skip
    b8: B8Plan = B8Plan(
        depths=(1, 20, 200, 2_000, 20_000), instances=1_000, deep=2_000, deep_instances=1_000, load_per_s=10_000,
        loaded_depths=(20, 2_000, 20_000), cold_depths=(20, 2_000), batch_instances=1_000, batch_repeats=10,
    )  # fmt: skip
    takeover: TakeoverPlan = TakeoverPlan(instances=1_000, repeats=10)
    renewal: RenewalPlan = RenewalPlan(leases=100_000, repeats=200)
    death: DeathPlan = DeathPlan(("idle", "mid_statement", "frozen"), repeats=50, frozen_repeats=5, frozen_ttl_s=2.0)
    claims: ClaimsPlan = ClaimsPlan(parked=(10, 10_000, 1_000_000), repeats=1_000)
    sustained: SustainedPlan = SustainedPlan(rate_per_s=10_000, seconds=600.0, window_s=10.0, checkpoint_timeout_s=60)


FULL = Plan(quick=False)

QUICK = Plan(
    quick=True,
    reference=ReferencePlan(3, 32, 1.5, 500, 300),
    b7=B7Plan(
        population=10_000, depth_max=64, result_bytes=200,
        poisson_per_s=(1_000, 5_000, 10_000, 20_000, 30_000), fixed_per_s=(5_000,), tcp_per_s=(5_000,),
        two_nodes_per_s=(5_000,), checkpointed_per_s=(), checkpointed_s=70.0,
        warmup_s=0.5, arm_s=2.0, saturation_in_flight=2_000, saturation_s=3.0, saturation_long_s=None,
    ),
    engine=EnginePlan(
        in_flight=2_000, warmup_s=0.5, closed_steps=(3, 20), closed_s=3.0, long_s=None,
        open_flows_per_s=(50,), open_s=3.0, nodes=(1,),
    ),
    b8=B8Plan(
        depths=(1, 20, 2_000), instances=200, deep=200, deep_instances=100, load_per_s=5_000,
        loaded_depths=(20,), cold_depths=(), batch_instances=1_000, batch_repeats=2,
    ),
    takeover=TakeoverPlan(instances=1_000, repeats=1),
    renewal=RenewalPlan(leases=10_000, repeats=20),
    death=DeathPlan(("idle", "mid_statement", "frozen"), repeats=3, frozen_repeats=1, frozen_ttl_s=1.0),
    claims=ClaimsPlan(parked=(10, 10_000), repeats=200),
    sustained=SustainedPlan(rate_per_s=5_000, seconds=6.0, window_s=2.0, checkpoint_timeout_s=30),
)  # fmt: skip
