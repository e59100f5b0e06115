"""SIGKILL of a node with many instances at work: when another node has finished all of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg

from ninelives_bench.distribution import distribution
from ninelives_bench.ground import Ground
from ninelives_bench.populate import Connection
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan
from ninelives_bench.takeover_node import Duty, NodeProcess, await_watched, seen_dead_at

TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.02
SEEN_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Rescue:
    """One kill; times in milliseconds from the kill, by the clock that server and killer share."""

    seen_ms: float
    first_commit_ms: float
    all_finished_ms: float
    observed_ms: float
    """When a poll found nothing unfinished any more: later than the last commit by up to one poll."""
    failed: int
    watched: bool


def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
    """Return the part `takeover` of summary.json."""
    count = plan.takeover.instances
    with ground.database() as dsn, NodeProcess(dsn), psycopg.connect(dsn, autocommit=True) as connection:
        rescues = [_kill_one(dsn, connection, count) for _ in range(plan.takeover.repeats)]
    columns = {
        name: np.array([getattr(rescue, name) for rescue in rescues], dtype=np.float64)
        for name in ("seen_ms", "first_commit_ms", "all_finished_ms", "observed_ms")
    }
    samples.save("takeover", columns)
    return {
        "instances": count,
        "failed": sum(rescue.failed for rescue in rescues),
        "unwatched": sum(not rescue.watched for rescue in rescues),
        **{name: distribution(column) for name, column in columns.items()},
    }


def _kill_one(dsn: str, connection: Connection, count: int) -> Rescue:
    """Let a node hold instances in the second of three steps, kill it, and wait for the other one's work."""
    (began,) = _row(connection, "select clock_timestamp()")
    with NodeProcess(dsn, Duty(hold=count)) as victim:
        watched = await_watched(connection, victim.session_id)
        killed_at = victim.kill()
        observed_at = _await_all_finished(connection)
    seen_at = seen_dead_at(connection, victim.session_id, SEEN_TIMEOUT_S)
    if seen_at is None or observed_at is None:
        raise RuntimeError(f"the instances of a killed node were not finished within {TIMEOUT_S:.0f} s")
    (finished_at,) = _row(
        connection,
        "select extract(epoch from max(finished_at))::float8 from ninelives.flow_instance where created_at >= %s",
        began,
    )
    (first_at,) = _row(
        connection,
        "select extract(epoch from min(s.committed_at))::float8 from ninelives.flow_step s"
        " join ninelives.flow_instance i using (instance_id) where i.created_at >= %s and s.step_id = 2",
        began,
    )
    seen, first, finished, observed = ((at - killed_at) * 1000 for at in (seen_at, first_at, finished_at, observed_at))
    return Rescue(seen, first, finished, observed, count - _count_right(connection, began), watched)


def _await_all_finished(connection: Connection) -> float | None:
    """Return when nothing was unfinished any more, in seconds since 1970."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        (left,) = _row(connection, "select exists (select from ninelives.flow_wake)")
        if not left:
            return time.time()
        time.sleep(POLL_S)
    return None


def _count_right(connection: Connection, began: object) -> int:
    """Count what is complete with one row for each step: the first one the victim's, the others its successor's."""
    (right,) = _row(
        connection,
        "select count(*) from ninelives.flow_instance i where i.created_at >= %s and i.state = 'Completed'"
        " and (select array_agg(row(s.step_id, s.token)::text order by s.sequence) from ninelives.flow_step s"
        " where s.instance_id = i.instance_id) = array['(1,1)', '(2,2)', '(3,2)']",
        began,
    )
    return int(right)


def _row(connection: Connection, query: str, *parameters: object) -> tuple[Any, ...]:
    row = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row
