"""Nodes die in each of the ways that are measured: all are seen, and none that is only frozen before its time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ninelives_bench import death
from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import QUICK, DeathPlan
from ninelives_rig.cluster.server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.chaos, pytest.mark.slow]


def test_every_death_is_seen(postgres_server: PostgresServer, tmp_path: Path) -> None:
    arms = ("idle", "mid_statement", "frozen")
    death_plan = DeathPlan(arms, repeats=2, frozen_repeats=1, frozen_ttl_s=0.6)
    plan = dataclasses.replace(QUICK, quick=False, death=death_plan)
    samples = SampleStore(tmp_path)
    found = {arm["name"]: arm for arm in death.measure(Ground(postgres_server), plan, samples)["arms"]}
    assert list(found) == [*arms, "mid_heartbeat"]
    for name, arm in found.items():
        wanted = 1 if name == "frozen" else 2
        assert (arm["killed"], arm["seen"], arm["ms"]["n"]) == (wanted, wanted, wanted)
        assert samples.saved[f"death_{name}"] == wanted
    assert (found["frozen"]["early"], found["frozen"]["ttl_ms"]) == (0, 600)
    assert found["frozen"]["ms"]["p50"] >= 0
