"""What the benchmarks' tests share: a ground on the session's own server, and plans that take a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import QUICK, B7Plan, Plan, ReferencePlan
from ninelives_rig.cluster.server import PostgresServer


@pytest.fixture
def ground(postgres_server: PostgresServer) -> Ground:
    """The ground on the server that all tests share."""
    return Ground(postgres_server)


@pytest.fixture
def samples(tmp_path: Path) -> SampleStore:
    """A store of samples of the test's own."""
    return SampleStore(tmp_path / "samples")


@pytest.fixture
def tiny_plan() -> Plan:
    """A plan with two short arms and a short saturation."""
    b7 = B7Plan(
        population=400, depth_max=64, result_bytes=200, poisson_per_s=(500,), fixed_per_s=(), tcp_per_s=(),
        two_nodes_per_s=(400,), checkpointed_per_s=(), checkpointed_s=1.0, warmup_s=0.2, arm_s=0.5,
        saturation_in_flight=50, saturation_s=0.3, saturation_long_s=None,
    )  # fmt: skip
    return replace(QUICK, b7=b7, reference=ReferencePlan(1, 4, 0.3, 100, 20))
