"""The whole engine: flows from durable start to terminal, as fast as they go and at given rates."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg

from ninelives_bench.committer_load import ClosedLoop, OpenLoop
from ninelives_bench.committer_nodes import Nodes
from ninelives_bench.distribution import distribution
from ninelives_bench.engine_flow import EFFECT_TABLE
from ninelives_bench.engine_load import FlowOrder, FlowsSeen, run_flows
from ninelives_bench.engine_share import generator_us_per_flow
from ninelives_bench.ground import Ground, Spent
from ninelives_bench.pacer import poisson
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import EnginePlan, Plan
from ninelives_bench.suite_progress import say

_LEAD_S = 0.05
STEPS: Final = 3
LATENCY_PER_S: Final = 50
LATENCY_S: Final = 60.0
"""The least for its p99: 20 s would leave it to the ten slowest flows."""
LONG_FLOW_STEPS: Final = 100
LONG_FLOWS_IN_FLIGHT: Final = 200
"""Flows of many steps: fewer at once, so that they end within their phase."""
TRANSACTIONAL_IN_FLIGHT: Final = 64
WINDOW_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Arm:
    """One row; without a rate it is a closed loop of ``in_flight`` flows over all nodes."""

    name: str
    steps: int
    seconds: float
    rate_per_s: int | None = None
    in_flight: int = 0
    nodes: int = 1
    transactional: bool = False


def arms_of(engine: EnginePlan) -> list[Arm]:
    """The arms in the order in which they run; the long one last, because it leaves the most behind."""
    flows = engine.in_flight
    closed = [
        Arm(f"closed-{steps}", steps, engine.closed_s, in_flight=_in_flight(steps, flows))
        for steps in engine.closed_steps
    ]
    several = [
        Arm(f"closed-{STEPS}-{nodes}-nodes", STEPS, engine.closed_s, in_flight=flows, nodes=nodes)
        for nodes in engine.nodes
        if nodes > 1
    ]
    rows = Arm(f"transactional-{STEPS}", STEPS, engine.closed_s, in_flight=TRANSACTIONAL_IN_FLIGHT, transactional=True)
    opened = [Arm(f"open-{rate}", STEPS, _open_s(engine, rate), rate_per_s=rate) for rate in engine.open_flows_per_s]
    long = [] if engine.long_s is None else [Arm(f"closed-{STEPS}-long", STEPS, engine.long_s, in_flight=flows)]
    return [*opened, *closed, *several, rows, *long]


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Run every arm in a database of its own; returns the part `engine` of the summary without its pgbench ratio.

    Raises RuntimeError when the store does not hold what was acknowledged: such figures mean nothing.
    """
    arms = []
    most = max(arm.nodes for arm in arms_of(plan.engine))
    with Nodes(most, run_flows) as nodes:
        for number, arm in enumerate(arms_of(plan.engine)):
            described = _run(ground, nodes, arm, plan, number, samples)
            arms.append(described)
            say(_line(described))
    by_name = {arm["name"]: arm for arm in arms}
    fast, long = by_name[f"closed-{STEPS}"], by_name.get(f"closed-{STEPS}-long")
    return {
        "arms": arms,
        "steps_per_s": fast["steps_per_s"],
        "flows_per_s": fast["flows_per_s"],
        "steps_per_s_180": None if long is None else long["steps_per_s"],
        "generator_us_per_flow": generator_us_per_flow(),
        "latency_50_ms": by_name[f"open-{LATENCY_PER_S}"]["response_ms"],
    }


def _open_s(engine: EnginePlan, rate: int) -> float:
    """A plan without the long arm is a quick look, which has no minute for one figure."""
    return engine.open_s if engine.long_s is None or rate != LATENCY_PER_S else max(LATENCY_S, engine.open_s)


def _in_flight(steps: int, flows: int) -> int:
    return flows if steps < LONG_FLOW_STEPS else min(flows, LONG_FLOWS_IN_FLIGHT)


def _run(ground: Ground, nodes: Nodes, arm: Arm, plan: Plan, number: int, samples: SampleStore) -> dict[str, Any]:
    with ground.database() as dsn:
        if arm.transactional:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(EFFECT_TABLE)
        orders = [_order(dsn, arm, plan, plan.seed * 10_000 + number * 100 + node * 10) for node in range(arm.nodes)]
        nodes.prepare(orders)
        before = ground.spent()
        seen: list[FlowsSeen] = nodes.measure(time.perf_counter() + _LEAD_S, arm.seconds)
        spent = ground.spent().since(before)
        nodes.release()
        _check(dsn, arm, seen)
        if arm.transactional:
            _check_rows(dsn, arm)
    samples.save(f"engine-{arm.name}", _columns(seen))
    return _describe(arm, seen, spent)


def _order(dsn: str, arm: Arm, plan: Plan, seed: int) -> FlowOrder:
    warmup, measured = (_load(arm, seconds, seed) for seconds in (plan.engine.warmup_s, arm.seconds))
    return FlowOrder(dsn, arm.steps, arm.transactional, warmup, measured)


def _load(arm: Arm, seconds: float, seed: int) -> OpenLoop | ClosedLoop:
    if arm.rate_per_s is None:
        return ClosedLoop(arm.in_flight // arm.nodes, seconds)
    return OpenLoop(poisson(arm.rate_per_s / arm.nodes, seconds, seed), seconds)


def _check(dsn: str, arm: Arm, seen: list[FlowsSeen]) -> None:
    """Every flow that was reported done is Completed in the store, with its steps; the warm-up's are there too."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "select count(*) filter (where state = 'Completed' and next_sequence = %s), count(*)"
            " from ninelives.flow_instance where finished_at is not null", [arm.steps + 1]
        ).fetchone()  # fmt: skip
    done = sum(int(np.count_nonzero(~np.isnan(one.done_s))) for one in seen)
    if row is None or row[0] < done or row[0] != row[1]:
        raise RuntimeError(f"{arm.name}: {done} flows were reported done, the store has {row} of them and ended")


def _check_rows(dsn: str, arm: Arm) -> None:
    """Every step row has the user's row of its transaction beside it, and no row is without its step."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "select (select count(*) from ninelives.flow_step), (select count(*) from bench_effect)"
        ).fetchone()
    if row is None or row[0] != row[1]:
        raise RuntimeError(f"{arm.name}: the journal and the user's table have {row} rows; they must be equal")


def _columns(seen: list[FlowsSeen]) -> dict[str, Any]:
    """What each flow took: one without a result has waited until the end of its phase."""
    due = np.concatenate([one.due_s for one in seen])
    done = np.concatenate([one.done_s for one in seen])
    until = np.concatenate([np.where(np.isnan(one.done_s), one.ended_s, one.done_s) for one in seen])
    return {"due_s": due, "response_ms": (until - due) * 1e3, "done": ~np.isnan(done), "done_s": until}


def _describe(arm: Arm, seen: list[FlowsSeen], spent: Spent) -> dict[str, Any]:
    columns = _columns(seen)
    within = np.sort(columns["done_s"][columns["done"] & (columns["done_s"] <= arm.seconds)])
    steps = sum(one.steps for one in seen)
    settled = sum(one.steps_settled for one in seen)
    return {
        "name": arm.name, "steps_per_flow": arm.steps, "nodes": arm.nodes, "transactional": arm.transactional,
        "offered_flows_per_s": arm.rate_per_s, "in_flight": arm.in_flight or None, "seconds": arm.seconds,
        "flows": len(within),
        "failed": sum(one.failed for one in seen),
        "unanswered": int(np.count_nonzero(~columns["done"])),
        "steps_per_s": steps / arm.seconds, "flows_per_s": len(within) / arm.seconds,
        "response_ms": distribution(columns["response_ms"]),
        "client_us_per_step": _each(sum(one.cpu_s for one in seen) * 1e6, settled),
        "server_us_per_step": _each(spent.server_s * 1e6, settled),
        "wal_bytes_per_step": _each(spent.wal_bytes, settled),
        "round_trips_per_step": _each(sum(one.batches for one in seen), settled),
        "windows": _windows(within, arm),
    }  # fmt: skip


def _windows(within: Any, arm: Arm) -> list[dict[str, float]]:
    """Whole windows of the arm with the steps of the flows that ended in them; none in a short arm."""
    edges = np.arange(0.0, arm.seconds + 1e-9, WINDOW_S)
    if len(edges) < 3:
        return []
    counts = np.histogram(within, edges)[0]
    return [
        {"at_s": float(at), "steps_per_s": float(count * arm.steps / WINDOW_S)}
        for at, count in zip(edges, counts, strict=False)
    ]


def _each(total: float, count: int) -> float | None:
    return total / count if count else None


def _line(arm: dict[str, Any]) -> str:
    response = arm["response_ms"]
    if not response["n"]:
        return f"engine {arm['name']}: no flow was started"
    cost = "" if arm["client_us_per_step"] is None else (
        f"; {arm['client_us_per_step']:.1f} us client, {arm['server_us_per_step']:.1f} us server a step"
    )  # fmt: skip
    return (
        f"engine {arm['name']}: {arm['steps_per_s']:,.0f} steps/s, {arm['flows_per_s']:,.0f} flows/s,"
        f" p50 {response['p50']:.2f} ms, p99 {response['p99']:.2f} ms{cost}"
    )
