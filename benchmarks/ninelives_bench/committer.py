"""B7: what a durable step commit costs, from a slow trickle to saturation, beside pgbench on the same server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg

from ninelives_bench.committer_arms import Arm, b7_arms, saturations
from ninelives_bench.committer_load import Observed
from ninelives_bench.committer_nodes import Measured, Nodes, Order, WarmUp
from ninelives_bench.committer_population import Population, count_steps, insert_population
from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground, Spent
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan
from ninelives_bench.suite_progress import say

HELD_SHARE: Final = 0.98
"""Of the offered rate: an arm that achieved less did not hold it."""
_LEAD_S = 0.05
ABSENT: Final = (
    {"name": "outbox", "why": "the runtime has no outbox in this release; a step commit writes no outbox row"},
)


@dataclass(slots=True)
class _Seen:
    """One arm, all nodes together."""

    arm: Arm
    observed: list[Observed]
    spent: Spent

    @property
    def committed(self) -> int:
        return sum(one.committed for one in self.observed)


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Run the ladder and the saturations; returns the part `b7` of the summary without its pgbench ratio.

    Raises RuntimeError when the journal does not hold what was acknowledged: such figures mean nothing.
    """
    arms, saturated = [], []
    with Nodes(max(2, *(arm.nodes for arm in b7_arms(plan)))) as nodes, ground.database() as dsn:
        for number, arm in enumerate([*b7_arms(plan), *saturations(plan)]):
            with _checkpoints(ground, arm):
                seen = _run(ground, nodes, dsn, arm, plan, number)
            _save(samples, seen)
            if arm.rate_per_s is None:
                saturated.append(_describe_saturation(seen))
                say(f"b7 {arm.name}: {saturated[-1]['per_s']:,.0f} commits/s")
            else:
                arms.append(_describe(seen))
                say(_line(arms[-1]))
    long = [one["per_s"] for one in saturated if one["seconds"] == plan.b7.saturation_long_s]
    return {
        "arms": arms,
        "saturations": saturated,
        "saturation_per_s": saturated[0]["per_s"],
        "saturation_60_per_s": long[0] if long else None,
        "knee_per_s": knee(arms),
        "absent": list(ABSENT),
    }


def knee(arms: list[dict[str, Any]]) -> float | None:
    """Return the highest Poisson rate that one node over the socket held; None when it held none."""
    held = [
        arm["offered_per_s"]
        for arm in arms
        if (arm["arrivals"], arm["nodes"], arm["transport"]) == ("poisson", 1, "socket")
        and arm["achieved_per_s"] >= HELD_SHARE * arm["offered_per_s"]
    ]
    return max(held, default=None)


def _run(ground: Ground, nodes: Nodes, dsn: str, arm: Arm, plan: Plan, number: int) -> _Seen:
    population = insert_population(dsn, arm.population(plan.b7))
    reach = ground.server.dsn_tcp if arm.transport == "tcp" else ground.server.dsn
    through = psycopg.conninfo.make_conninfo(reach, dbname=psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
    orders = [
        order_for(through, part, arm, plan, plan.seed * 10_000 + number * 100 + node * 10)
        for node, part in enumerate(population.split(arm.nodes))
    ]
    nodes.prepare(orders)
    before = ground.spent()
    observed = nodes.measure(time.perf_counter() + _LEAD_S, arm.seconds)
    spent = ground.spent().since(before)
    reports = nodes.release()
    acknowledged = sum(report.committed for report in reports)
    unknown = sum(report.unanswered for report in reports)
    found = count_steps(dsn, population)
    if not acknowledged <= found <= acknowledged + unknown:
        raise RuntimeError(f"{arm.name}: {acknowledged} commits were acknowledged, the journal has {found}")
    return _Seen(arm, observed, spent)


def order_for(dsn: str, population: Population, arm: Arm, plan: Plan, seed: int) -> Order:
    """Return what one node of an arm does."""
    b7 = plan.b7
    warmup, measured = arm.load(b7, b7.warmup_s, seed + 1), arm.load(b7, arm.seconds, seed)
    return Order(dsn, population, WarmUp(warmup), Measured(measured), b7.depth_max, b7.result_bytes, seed)


@contextmanager
def _checkpoints(ground: Ground, arm: Arm) -> Iterator[None]:
    """Let timed checkpoints come while the arm runs; raises RuntimeError when none did."""
    if not arm.checkpoints:
        yield
        return
    before = ground.server.options.get("checkpoint_timeout", "5min")
    ground.server.configure({"checkpoint_timeout": "30s"})
    ground.server.reload()
    began = _last_checkpoint(ground)
    try:
        yield
        if _last_checkpoint(ground) == began:
            raise RuntimeError(f"{arm.name}: no checkpoint came while it ran")
    finally:
        ground.server.configure({"checkpoint_timeout": before})
        ground.server.reload()


def _last_checkpoint(ground: Ground) -> str:
    with psycopg.connect(ground.server.dsn, autocommit=True) as connection:
        row = connection.execute("select checkpoint_lsn::text from pg_control_checkpoint()").fetchone()
    assert row is not None
    return str(row[0])


def _describe(seen: _Seen) -> dict[str, Any]:
    arm = seen.arm
    columns = _columns(seen)
    return {
        "name": arm.name, "arrivals": arm.arrivals, "offered_per_s": arm.rate_per_s,
        "achieved_per_s": _answered_in_time(seen) / arm.seconds, "seconds": arm.seconds, "nodes": arm.nodes,
        "transport": arm.transport, "outbox": False, "checkpoints": arm.checkpoints,
        "refused": sum(one.refused for one in seen.observed),
        "unanswered": int(np.count_nonzero(~columns["answered"])),
        "response_ms": distribution(columns["response_ms"]),
        "service_ms": distribution(columns["service_ms"][columns["handed"]]),
        **_costs(seen),
    }  # fmt: skip


def _describe_saturation(seen: _Seen) -> dict[str, Any]:
    columns = _columns(seen)
    return {
        "name": seen.arm.name, "seconds": seen.arm.seconds, "in_flight": seen.arm.in_flight,
        "per_s": _answered_in_time(seen) / seen.arm.seconds, "refused": sum(one.refused for one in seen.observed),
        "unanswered": int(np.count_nonzero(~columns["answered"])),
        "service_ms": distribution(columns["service_ms"]), **_costs(seen),
    }  # fmt: skip


def _costs(seen: _Seen) -> dict[str, float | None]:
    """What one commit cost; the CPU of the client is that of all nodes, their load generators included."""
    commits = seen.committed
    batches = sum(one.batches for one in seen.observed)
    rows = sum(one.rows for one in seen.observed)
    return {
        "rows_per_batch": rows / batches if batches else None,
        "client_us": sum(one.cpu_s for one in seen.observed) / commits * 1e6 if commits else None,
        "server_us": seen.spent.server_s / commits * 1e6 if commits else None,
        "wal_bytes": seen.spent.wal_bytes / commits if commits else None,
    }


def _answered_in_time(seen: _Seen) -> int:
    """Answers within the phase itself, not in the grace behind it."""
    return sum(int(np.count_nonzero(one.answered_s <= one.seconds)) for one in seen.observed)


def _columns(seen: _Seen) -> dict[str, Any]:
    """What each commit was: what is unanswered has waited until the end of its phase."""
    parts = [_node_columns(number, one) for number, one in enumerate(seen.observed)]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _node_columns(number: int, one: Observed) -> dict[str, Any]:
    answered, handed = ~np.isnan(one.answered_s), ~np.isnan(one.handed_s)
    until = np.where(answered, one.answered_s, one.ended_s)
    due = one.due_s if len(one.due_s) else one.handed_s
    return {
        "node": np.full(len(due), number, dtype=np.int8),
        "due_s": due,
        "response_ms": (until - due) * 1e3,
        "service_ms": (until - one.handed_s) * 1e3,
        "answered": answered,
        "handed": handed,
    }


def _save(samples: SampleStore, seen: _Seen) -> None:
    columns = _columns(seen)
    if seen.arm.rate_per_s is None:
        # A closed loop has no intended arrivals, so it has no response times either.
        del columns["response_ms"]
    samples.save(f"b7-{seen.arm.name}", columns)


def _line(arm: dict[str, Any]) -> str:
    response = arm["response_ms"]
    if not response["n"]:
        return f"b7 {arm['name']}: no samples"
    cost = "" if arm["client_us"] is None else f"; {arm['client_us']:.1f} us client, {arm['server_us']:.1f} us server"
    return (
        f"b7 {arm['name']}: {arm['achieved_per_s']:,.0f}/s, response p50 {response['p50']:.2f} ms,"
        f" p99 {response['p99']:.2f} ms{cost}"
    )
