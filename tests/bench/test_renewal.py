"""Heartbeats of a session with few and with many leases."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ninelives_bench import renewal
from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import QUICK, RenewalPlan
from ninelives_rig.cluster.server import PostgresServer

pytestmark = [pytest.mark.postgres]


def test_as_many_heartbeats_as_wanted_are_measured(postgres_server: PostgresServer, tmp_path: Path) -> None:
    plan = dataclasses.replace(QUICK, renewal=RenewalPlan(leases=500, repeats=7))
    samples = SampleStore(tmp_path)
    found = renewal.measure(Ground(postgres_server), plan, samples)
    assert [(arm["leases"], arm["ms"]["n"], arm["expired"]) for arm in found["arms"]] == [
        (10, 7, False),
        (500, 7, False),
    ]
    assert (found["leases"], found["ms"]) == (500, found["arms"][1]["ms"])
    assert samples.saved == {"renewal_10": 7, "renewal_500": 7}
