"""Claims among parked instances: they take what is due and nothing else, and read no table of flows from end to end."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ninelives_bench import claims
from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import QUICK, ClaimsPlan
from ninelives_rig.cluster.server import PostgresServer

pytestmark = [pytest.mark.postgres]


def test_each_arm_claims_exactly_what_is_due(postgres_server: PostgresServer, tmp_path: Path) -> None:
    plan = dataclasses.replace(QUICK, claims=ClaimsPlan(parked=(10, 2_000), repeats=15))
    samples = SampleStore(tmp_path)
    arms = claims.measure(Ground(postgres_server), plan, samples)["arms"]
    assert [arm["parked"] for arm in arms] == [10, 2_000]
    for arm in arms:
        assert (arm["wrong"], arm["empty_ms"]["n"], arm["due_ms"]["n"]) == (0, 15, 15)
        # The sessions are as many as there are nodes.
        assert set(arm["sequential_scans"]) <= {"node_session"}
    assert samples.saved == {"claims_10": 15, "claims_2000": 15}
