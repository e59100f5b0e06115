"""Whole flows through real nodes: every one counted, its result checked, its costs there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no stubs
import pytest

from ninelives_bench import engine, engine_flow
from ninelives_bench.engine_load import FlowsSeen
from ninelives_bench.engine_share import generator_us_per_flow
from ninelives_bench.ground import Ground, Spent
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import FULL, QUICK, EnginePlan, Plan

TINY = EnginePlan(
    in_flight=20, warmup_s=0.1, closed_steps=(3, 20), closed_s=0.5, long_s=None,
    open_flows_per_s=(50,), open_s=0.6, nodes=(1, 2),
)  # fmt: skip


@pytest.mark.postgres
def test_every_arm_on_a_server(ground: Ground, tiny_plan: Plan, samples: SampleStore) -> None:
    found = engine.measure(ground, replace(tiny_plan, engine=TINY), samples)
    arms = {arm["name"]: arm for arm in found["arms"]}
    assert list(arms) == ["open-50", "closed-3", "closed-20", "closed-3-2-nodes", "transactional-3"]
    for arm in arms.values():
        assert (arm["failed"], arm["unanswered"]) == (0, 0)
        assert arm["response_ms"]["n"] == samples.saved[f"engine-{arm['name']}"] >= arm["flows"]
        # What ended within the phase depends on the machine; that it costs something does not.
        for cost in ("client_us_per_step", "server_us_per_step", "wal_bytes_per_step", "round_trips_per_step"):
            assert arm[cost] is None or arm[cost] > 0
    assert arms["open-50"]["response_ms"]["n"] == 30
    assert found["latency_50_ms"] == arms["open-50"]["response_ms"]
    assert found["steps_per_s"] == arms["closed-3"]["steps_per_s"]
    table = pq.read_table(samples.folder / "engine-open-50.parquet").to_pydict()
    assert all(table["done"]) and min(table["response_ms"]) > 0


@pytest.mark.postgres
def test_a_wrong_result_is_a_failed_flow(
    ground: Ground, tiny_plan: Plan, samples: SampleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_check", lambda dsn, arm, seen: seen[0].done_s.fill(np.nan))
    plan = replace(tiny_plan, engine=replace(TINY, closed_steps=(3,), nodes=(1,)))
    found = engine.measure(ground, plan, samples)
    # What never got its result counts with the time that it has waited.
    assert all(arm["unanswered"] == arm["response_ms"]["n"] and arm["flows"] == 0 for arm in found["arms"])


def test_a_flow_without_an_end_counts_with_the_time_it_waited() -> None:
    seen = FlowsSeen(2.0, np.array([0.5, 1.0]), np.array([0.6, np.nan]), 5.0, 1, 4, 8, 2, 0.1)
    told = engine._describe(engine.Arm("x", 3, 2.0), [seen], Spent(0.0, 0.2, 8000))
    assert (told["flows"], told["failed"], told["unanswered"]) == (1, 1, 1)
    assert told["response_ms"]["max"] == pytest.approx(4000.0)
    assert (told["server_us_per_step"], told["wal_bytes_per_step"]) == (pytest.approx(25_000.0), 1000.0)
    # Rates count what ran within the phase, costs are shared by all that ran until the last flow had ended.
    assert (told["steps_per_s"], told["round_trips_per_step"]) == (2.0, 0.25)


def test_the_full_plan_runs_the_long_arm_last() -> None:
    arms = engine.arms_of(FULL.engine)
    assert arms[-1].name == "closed-3-long" and arms[-1].seconds == 180.0
    assert len({arm.name for arm in arms}) == len(arms)
    assert {arm.in_flight for arm in arms if arm.steps >= 100} == {engine.LONG_FLOWS_IN_FLIGHT}


def test_the_arm_of_the_latency_figure_lasts_a_minute_but_in_a_quick_look() -> None:
    seconds = {arm.name: arm.seconds for arm in engine.arms_of(FULL.engine)}
    assert seconds[f"open-{engine.LATENCY_PER_S}"] >= 60.0
    quick = {arm.name: arm.seconds for arm in engine.arms_of(QUICK.engine)}
    assert quick[f"open-{engine.LATENCY_PER_S}"] == QUICK.engine.open_s


def test_the_generators_own_share_is_measured() -> None:
    share = generator_us_per_flow()
    assert set(share) == {"closed", "open"} and min(share.values()) > 0


def test_the_flows_have_the_steps_they_say() -> None:
    assert len(engine_flow.make_flow(20).plan.nodes) == 20
    kinds = {node.capability.effect.kind for node in engine_flow.make_flow(2, transactional=True).plan.nodes}  # type: ignore[union-attr]
    assert kinds == {"transactional"}
