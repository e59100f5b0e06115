"""Commits through the real lanes into a real journal: counted right, one in flight each, a stall is seen (B49)."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import numpy as np
import psycopg
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no stubs
import pytest
import uvloop

from ninelives_bench import committer, reference
from ninelives_bench.committer import knee
from ninelives_bench.committer_arms import b7_arms, saturations
from ninelives_bench.committer_load import ClosedLoop, CommitLoad, Observed, OpenLoop, open_client
from ninelives_bench.committer_nodes import Nodes
from ninelives_bench.committer_population import Population, count_steps, insert_population
from ninelives_bench.ground import Ground
from ninelives_bench.pacer import fixed, poisson
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import FULL, QUICK, Plan

pytestmark = pytest.mark.postgres


def commit(
    dsn: str, population: Population, work: Callable[[CommitLoad], Awaitable[Observed]], depth_max: int = 64
) -> Observed:
    async def run() -> Observed:
        async with open_client(dsn) as client:
            load = CommitLoad(client, population, depth_max=depth_max, result_bytes=200, seed=1, grace_s=1.0)
            observed = await work(load)
            assert await load.settle(5.0) == 0
            return observed

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def query(dsn: str, text: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(text.encode()).fetchall()


def test_the_ladder_and_the_saturation(ground: Ground, tiny_plan: Plan, samples: SampleStore) -> None:
    found = committer.measure(ground, tiny_plan, samples)
    one, two = found["arms"]
    assert (one["name"], one["nodes"], one["offered_per_s"]) == ("poisson-500", 1, 500)
    assert (two["name"], two["nodes"], two["offered_per_s"]) == ("two-nodes-400", 2, 400)
    for arm, commits in ((one, 250), (two, 200)):
        # The warm-up's commits are not among them.
        assert arm["response_ms"]["n"] == arm["service_ms"]["n"] == commits
        assert (arm["refused"], arm["unanswered"]) == (0, 0)
        assert 0 < arm["service_ms"]["max"] <= arm["response_ms"]["max"]
        assert arm["client_us"] > 0 and arm["wal_bytes"] > 300
    table = pq.read_table(samples.folder / "b7-two-nodes-400.parquet")
    assert set(table.column("node").to_pylist()) == {0, 1}
    assert found["saturation_per_s"] > 0 and found["saturation_60_per_s"] is None
    assert [entry["name"] for entry in found["absent"]] == ["outbox"]
    assert samples.saved["b7-saturation-0s"] == found["saturations"][0]["service_ms"]["n"]


def test_acknowledged_commits_that_the_journal_does_not_have_are_no_result(
    ground: Ground, tiny_plan: Plan, samples: SampleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "count_steps", lambda dsn, population: count_steps(dsn, population) - 1)
    with pytest.raises(RuntimeError, match="were acknowledged, the journal has"):
        committer.measure(ground, tiny_plan, samples)


def test_each_commit_is_the_next_step_and_none_gets_too_deep(ground: Ground) -> None:
    with ground.database() as dsn:
        population = insert_population(dsn, 40)
        found = commit(dsn, population, lambda load: load.open_loop(OpenLoop(poisson(1_000, 0.3, 1), 0.3)), depth_max=5)
        assert count_steps(dsn, population) == found.committed == 200
        assert np.count_nonzero(np.isnan(found.handed_s)) == 100
        depths = query(
            dsn, "select count(*), max(step_id), max(sequence) from ninelives.flow_step group by instance_id"
        )
        # Dense from the first on: one in flight at a time.
        assert depths == [(5, 4, 5)] * 40


def test_what_could_not_be_handed_over_counts_as_unanswered(ground: Ground) -> None:
    with ground.database() as dsn:
        population = insert_population(dsn, 10)
        found = commit(dsn, population, lambda load: load.open_loop(OpenLoop(fixed(1_000, 0.05), 0.05)), depth_max=2)
    assert found.committed == 20
    assert np.count_nonzero(np.isnan(found.answered_s)) == 30


def test_a_fenced_instance_is_a_refusal(ground: Ground) -> None:
    with ground.database() as dsn:
        population = insert_population(dsn, 20)
        stolen = UUID(bytes=population.ids[3])
        query(dsn, f"update ninelives.flow_instance set fence = 9 where instance_id = '{stolen}' returning 1")
        found = commit(dsn, population, lambda load: load.open_loop(OpenLoop(fixed(400, 0.2), 0.2)))
        assert found.refused == 1 and found.verdicts["fenced"] == 1
        assert count_steps(dsn, population) == found.committed == 79


def test_a_closed_loop_keeps_so_many_in_flight(ground: Ground) -> None:
    with ground.database() as dsn:
        population = insert_population(dsn, 500)
        found = commit(dsn, population, lambda load: load.closed_loop(ClosedLoop(30, 0.3)))
        assert count_steps(dsn, population) == found.committed == len(found.answered_s) > 30
    events = sorted([(at, 1) for at in found.handed_s] + [(at, -1) for at in found.answered_s])
    assert max(np.cumsum([change for _, change in events])) <= 30


def test_a_frozen_server_shows_in_the_responses(ground: Ground) -> None:
    """Everything that was due in the pause waited for its end, from its own due time on."""
    pause_s, rate = 0.4, 500
    due = fixed(rate, 1.0)

    def freeze(pids: list[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(pause_s)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    async def work(load: CommitLoad) -> Observed:
        database = query(dsn, "select current_database()")[0][0]
        rows = query(
            ground.server.dsn,
            f"select pid from pg_stat_activity where datname = '{database}' and application_name like 'ninelives%'",
        )
        freezer = threading.Timer(0.2, freeze, [[pid for (pid,) in rows]])
        freezer.start()
        try:
            return await load.open_loop(OpenLoop(due, 1.0))
        finally:
            await asyncio.to_thread(freezer.join)

    with ground.database() as dsn:
        found = commit(dsn, insert_population(dsn, 600), work)
    response_s = found.answered_s - found.due_s
    assert len(response_s) == rate and found.committed == rate
    assert np.quantile(response_s, 0.99) > 0.9 * pause_s
    assert np.count_nonzero(response_s > pause_s / 2) >= 0.4 * pause_s * rate


def test_a_late_generator_makes_responses_longer_and_no_service(ground: Ground) -> None:
    pause_s, rate = 0.3, 500

    async def work(load: CommitLoad) -> Observed:
        asyncio.get_running_loop().call_later(0.2, time.sleep, pause_s)
        return await load.open_loop(OpenLoop(fixed(rate, 0.8), 0.8))

    with ground.database() as dsn:
        found = commit(dsn, insert_population(dsn, 600), work)
    late_s = found.handed_s - found.due_s
    assert late_s.min() >= 0
    assert np.count_nonzero(found.answered_s - found.due_s > pause_s / 2) >= 0.4 * pause_s * rate
    assert np.quantile(found.answered_s - found.handed_s, 0.5) < pause_s / 2


def test_the_references_do_the_same_work(ground: Ground, tiny_plan: Plan, samples: SampleStore) -> None:
    found = reference.measure(ground, tiny_plan, samples)
    for form in ("pgbench", "pgbench_one_statement"):
        assert found[form]["transactions"] > 0 and found[form]["latency_ms"] > 0
    assert found["raw_statement"]["rows"] == 100 and found["raw_statement"]["committed"] % 100 == 0
    assert found["fdatasync_ms"]["n"] == 20


@pytest.mark.parametrize("said", ["", "pgbench: error", "number of transactions actually processed: 0/0\n"])
def test_what_is_no_result_of_pgbench_is_none(said: str) -> None:
    assert reference.parse_pgbench(said) is None


def test_a_node_that_fails_is_told(tiny_plan: Plan) -> None:
    arm = b7_arms(tiny_plan)[0]
    with Nodes(1) as nodes, pytest.raises(RuntimeError, match="a node under load"):
        nodes.prepare([committer.order_for("host=nowhere.invalid", Population("0" * 24, 0, 4), arm, tiny_plan, 1)])


def test_the_plans_give_every_arm_instances_enough() -> None:
    for plan in (FULL, QUICK):
        for arm in [*b7_arms(plan), *saturations(plan)]:
            assert arm.population(plan.b7) >= plan.b7.population - 1
            assert arm.population(plan.b7) % arm.nodes == 0
            if arm.rate_per_s is not None:
                commits = arm.rate_per_s * (arm.seconds + plan.b7.warmup_s)
                assert commits <= arm.population(plan.b7) * plan.b7.depth_max
    assert {5_000, 10_000} <= set(QUICK.b7.poisson_per_s)
    assert replace(QUICK, seed=2) != QUICK


def test_the_knee_is_the_highest_rate_that_was_held() -> None:
    arms = [
        {"arrivals": "poisson", "nodes": nodes, "transport": "socket", "offered_per_s": offered, "achieved_per_s": got}
        for nodes, offered, got in (
            (1, 1_000, 1_000.0),
            (1, 5_000, 4_910.0),
            (1, 10_000, 9_000.0),
            (2, 20_000, 20_000.0),
        )
    ]
    assert knee(arms) == 5_000
    assert knee(arms[2:]) is None
