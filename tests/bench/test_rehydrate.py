"""Rehydration measured tiny: every arm is there, all went on at the right place, and a wrong frontier is seen."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ninelives_bench import rehydrate
from ninelives_bench.ground import Ground, open_ground
from ninelives_bench.populate import abandon, record, sequence
from ninelives_bench.populate_door import Door, run
from ninelives_bench.rehydrate_batch import measure_batch
from ninelives_bench.rehydrate_takeover import Mortuary, Scene, Takeovers, take_each
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import QUICK, Plan

pytestmark = [pytest.mark.postgres]

INSTANCES = 12


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """A server of this module's own: the cold arm restarts it."""
    with open_ground() as made:
        yield made


def tiny(**changes: Any) -> Plan:
    b8 = dataclasses.replace(
        QUICK.b8, depths=(1, 300), instances=INSTANCES, deep=100, deep_instances=INSTANCES // 2, load_per_s=200,
        loaded_depths=(), cold_depths=(), batch_instances=30, batch_repeats=2,
    )  # fmt: skip
    return dataclasses.replace(QUICK, b8=dataclasses.replace(b8, **changes))


@pytest.mark.slow
def test_each_arm_takes_every_instance_once_and_at_the_right_place(ground: Ground, tmp_path: Path) -> None:
    samples = SampleStore(tmp_path)
    b8 = rehydrate.measure(ground, tiny(loaded_depths=(300,), cold_depths=(1,)), samples)
    arms = {(arm["depth"], arm["cache"], arm["load_per_s"]): arm for arm in b8["arms"]}
    assert list(arms) == [(1, "warm", 0), (1, "cold", 0), (300, "warm", 0), (300, "warm", 200)]
    for arm in arms.values():
        count = INSTANCES if arm["depth"] == 1 else INSTANCES // 2
        assert (arm["failed"], arm["instances"], arm["each_taken"], arm["ms"]["n"]) == (0, count, 1, count)
        assert samples.saved[f"b8_{arm['depth']}_{arm['cache']}_{arm['load_per_s']}"] == count
    assert arms[1, "warm", 0]["rows_read"] == INSTANCES
    # Of the deep ones only what is behind the snapshot.
    assert 0 < arms[300, "warm", 0]["rows_read"] < INSTANCES // 2 * 300
    assert arms[300, "warm", 0]["achieved_load_per_s"] == 0.0
    assert arms[300, "warm", 200]["achieved_load_per_s"] > 0.0
    assert b8["batch"]["failed"] == 0
    assert (b8["batch"]["instances"], b8["batch"]["ms"]["n"]) == (30, 2)


def test_more_samples_than_instances_are_taken_in_rounds_and_said_so(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehydrate, "WARMUP_INSTANCES", 2)
    monkeypatch.setattr(rehydrate, "ROWS_MAX", 300 * 6)
    (arm,) = rehydrate.measure(ground, tiny(depths=(300,)), SampleStore(tmp_path))["arms"]
    assert (arm["instances"], arm["each_taken"], arm["ms"]["n"], arm["failed"]) == (4, 2, 6, 0)


def test_batches_beyond_one_claim_are_complete(ground: Ground, tmp_path: Path) -> None:
    batch = measure_batch(ground, tiny(batch_instances=700, batch_repeats=1), SampleStore(tmp_path))
    assert (batch["failed"], batch["instances"]) == (0, 700)
    assert batch["us_per_instance"] == pytest.approx(batch["ms"]["p50"] * 1000 / 700)


def test_a_frontier_that_is_wrong_counts_as_failed(ground: Ground) -> None:
    """A journal of one row less than its instances are said to have."""
    flow = sequence("bench.wrong", 6)
    journal = record(flow.plan, 5)

    async def take(dsn: str) -> int:
        async with Door(dsn) as door:
            plan_id = await door.register(flow.plan)
            with Mortuary(dsn) as mortuary, psycopg.connect(dsn, autocommit=True) as connection:
                orphans = abandon(connection, plan_id, flow.plan, journal, range(1000, 1004))
                connection.execute(
                    "delete from ninelives.flow_step s using ninelives.flow_wake w"
                    " where w.instance_id = s.instance_id and w.holder = 1002 and s.step_id = 5"
                )
                into = Takeovers()
                scene = Scene(flow.plan, plan_id, journal)
                await take_each(door, mortuary, scene, random.Random(1).sample(orphans, 4), into)
                return into.failed

    with ground.database() as dsn:
        assert run(take(dsn)) == 1


@pytest.mark.parametrize(("depth", "rows"), [(1, 1), (20, 20), (24, 0), (40, 16)])
def test_a_journal_is_what_the_runtime_would_have_written(depth: int, rows: int) -> None:
    journal = record(sequence("bench.recorded", depth + 1).plan, depth)
    assert (journal.rows_behind, len(journal.results)) == (rows, depth)
    assert (journal.frontier is None) == (rows == depth)
