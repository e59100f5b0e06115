"""Instances written in bulk as the runtime leaves them: abandoned ones with their journal, and parked ones."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast
from uuid import UUID

import orjson
import psycopg

from ninelives import Call, Flow, capability
from ninelives.ids import new_instance_id
from ninelives.plan import Plan
from ninelives.recall import Recall
from ninelives.store.rows import Claimed, StepCommit

RESULT_BYTES: Final = 200
"""What one step leaves, and about what an instance is started with; the prototype's figures are for the same size."""

INDEXED_ROWS_MAX: Final = 200_000
STEPS_AT_ONCE: Final = 100
TABLES: Final = (
    "flow_instance", "flow_lease", "flow_wake", "flow_step", "flow_signal", "flow_intent", "node_session",
)  # fmt: skip

Connection = psycopg.Connection[tuple[Any, ...]]


@capability("bench.step", version="1")
async def bench_step(call: Call, given: Any) -> Any:
    """Stand in a plan; what is measured with it ends before a body would run."""
    return given


def sequence(name: str, steps: int) -> Flow:
    """Return a flow of `steps` steps, one after the other."""
    flow = Flow(name, version="1")
    for number in range(1, steps + 1):
        flow = flow.step(f"s{number}", bench_step)
    return flow


@dataclass(frozen=True, slots=True)
class Journal:
    """What an instance has written after so many steps: every result, and the last snapshot of its `Recall`."""

    depth: int
    results: tuple[bytes, ...]
    frontier: bytes | None
    snapshot_sequence: int

    @property
    def rows_behind(self) -> int:
        """The rows that a takeover has to read."""
        return self.depth - self.snapshot_sequence


def result_of(step_id: int, size: int = RESULT_BYTES) -> bytes:
    """Return a step's result: JSON of `size` bytes that does not compress to nothing."""
    text = hashlib.sha512(step_id.to_bytes(4, "big")).hexdigest() * (size // 128 + 1)
    return orjson.dumps(text[: max(1, size - 2)])


def record(plan: Plan, depth: int, size: int = RESULT_BYTES) -> Journal:
    """Let the runtime's own `Recall` take `depth` successes, and keep what it would have had committed."""
    born = Claimed(bytes(16), 0, 1, 0, 1, "Running", b"null", None, -1, False)
    recall = Recall(plan, born, read_nothing)
    # The rows are never submitted, so nothing waits for their answers.
    nobody = cast("asyncio.Future[str]", None)
    results, frontier, snapshot_sequence = [], None, 0
    for step_id in range(1, depth + 1):
        result = result_of(step_id, size)
        row = StepCommit(born.instance_id, 1, nobody, b"", step_id, 1, b"bench.step", b"1", b"Success", result, None, 1)
        recall.succeed(row)
        results.append(result)
        if row.frontier is not None:
            frontier, snapshot_sequence = row.frontier, step_id
    return Journal(depth, tuple(results), frontier, snapshot_sequence)


async def read_nothing(keys: Sequence[tuple[str, int]]) -> list[tuple[str, int, bytes | None]]:
    """Stand where a node reads older results: no step here selects one."""
    raise AssertionError(f"a step asked for {keys}")


@dataclass(frozen=True, slots=True)
class Abandoned:
    """One instance and the session that held it, which has no row yet: write one, and the instance is an orphan."""

    instance_id: bytes
    holder: int


def abandon(
    connection: Connection, plan_id: int, plan: Plan, journal: Journal, holders: Sequence[int]
) -> list[Abandoned]:
    """Write one running instance for each of `holders`, with its journal, as its holder left it behind.

    The rows of the instances stand between each other, as they do when many run at the same time.
    """
    made = [Abandoned(new_instance_id().bytes, holder) for holder in holders]
    _make_table(connection, "left_behind", "instance_id uuid, holder bigint")
    _make_table(connection, "left_results", "step_id int primary key, result json")
    with connection.cursor().copy("copy left_behind from stdin") as copy:
        for one in made:
            copy.write_row((UUID(bytes=one.instance_id), one.holder))
    with connection.cursor().copy("copy left_results from stdin") as copy:
        for step_id, result in enumerate(journal.results, 1):
            copy.write_row((step_id, result.decode()))
    _write_instances(connection, plan_id, plan, journal)
    if len(made) * journal.depth < INDEXED_ROWS_MAX:
        _write_steps(connection, journal.depth)
    else:
        with _without_indexes(connection):
            _write_steps(connection, journal.depth)
    return made


def _write_instances(connection: Connection, plan_id: int, plan: Plan, journal: Journal) -> None:
    connection.execute(
        "insert into ninelives.flow_instance (instance_id, plan_id, fence, next_sequence, snapshot_sequence, version,"
        " claims, paused, state, created_at, updated_at, flow_id, flow_version, input, frontier)"
        " select instance_id, %s, 1, %s, %s, %s, 0, false, 'Running', now(), now(), %s, %s, %s, %s::json"
        " from left_behind",
        (
            plan_id, journal.depth + 1, journal.snapshot_sequence, journal.depth + 1, plan.flow_id, plan.version,
            result_of(0).decode(), _text(journal.frontier),
        ),
    )  # fmt: skip
    connection.execute("insert into ninelives.flow_lease select instance_id, 1, holder from left_behind")
    connection.execute(
        "insert into ninelives.flow_wake select instance_id, %s, 1, 0, null, holder from left_behind", (plan_id,)
    )


def _write_steps(connection: Connection, depth: int) -> None:
    """A piece of the history of all instances at a time, so that nothing has to be sorted on disk."""
    connection.execute("analyze left_behind, left_results")
    for first in range(1, depth + 1, STEPS_AT_ONCE):
        connection.execute(
            "insert into ninelives.flow_step (instance_id, sequence, token, duration_ms, committed_at, step_id,"
            " attempt, scope, capability_id, capability_version, outcome, result)"
            " select b.instance_id, r.step_id, 1, 1, now(), r.step_id, 1, '', 'bench.step', '1', 'Success', r.result"
            " from left_results r cross join left_behind b where r.step_id between %s and %s order by r.step_id",
            (first, first + STEPS_AT_ONCE - 1),
        )


@contextmanager
def _without_indexes(connection: Connection) -> Iterator[None]:
    """Fill the journal without its indexes and build them afterwards, as migrated: a third of the time."""
    found = connection.execute(
        "select i.indexrelid::regclass::text, coalesce(c.conname, ''),"
        " coalesce(pg_get_constraintdef(c.oid), pg_get_indexdef(i.indexrelid))"
        " from pg_index i left join pg_constraint c on c.conindid = i.indexrelid and c.conrelid = i.indrelid"
        " where i.indrelid = 'ninelives.flow_step'::regclass order by 1"
    ).fetchall()
    for index, constraint, _ in found:
        drop = f"alter table ninelives.flow_step drop constraint {constraint}" if constraint else f"drop index {index}"
        connection.execute(drop.encode())
    yield
    connection.execute("set maintenance_work_mem = '512MB'")
    for _, constraint, definition in found:
        add = f"alter table ninelives.flow_step add constraint {constraint} {definition}" if constraint else definition
        connection.execute(add.encode())


def abandon_again(
    connection: Connection, abandoned: Sequence[Abandoned], holders: Sequence[int]
) -> list[Abandoned]:
    """Let instances that were taken over be abandoned once more, by other holders."""
    again = [Abandoned(one.instance_id, holder) for one, holder in zip(abandoned, holders, strict=True)]
    ids = [UUID(bytes=one.instance_id) for one in again]
    connection.execute(
        "update ninelives.flow_wake w set holder = b.holder, run_at = null"
        " from unnest(%s::uuid[], %s::bigint[]) b(instance_id, holder) where w.instance_id = b.instance_id",
        (ids, list(holders)),
    )
    # A commit of the last holder would have set it back; without, what is taken over often would count as poison.
    connection.execute("update ninelives.flow_instance set claims = 0 where instance_id = any(%s)", (ids,))
    return again


def park(connection: Connection, plan_id: int, plan: Plan, count: int) -> None:
    """Write `count` suspended instances: half wait for something outside, half for a timer that is far away."""
    _write_many(connection, plan_id, plan, count, "Suspended")
    connection.execute("insert into ninelives.flow_lease select instance_id, 1, null from written")
    connection.execute(
        "insert into ninelives.flow_wake select instance_id, %s, 1, 1,"
        " case when number %% 2 = 0 then now() + interval '1 day' end, null from written",
        (plan_id,),
    )


def hold(connection: Connection, plan_id: int, plan: Plan, count: int, session_id: int) -> None:
    """Write `count` running instances that a session holds."""
    _write_many(connection, plan_id, plan, count, "Running")
    connection.execute("insert into ninelives.flow_lease select instance_id, 1, %s from written", (session_id,))
    connection.execute(
        "insert into ninelives.flow_wake select instance_id, %s, 1, 0, null, %s from written", (plan_id, session_id)
    )


def _write_many(connection: Connection, plan_id: int, plan: Plan, count: int, state: str) -> None:
    """Write instances without a journal, their ids like the runtime's own: neighbours in time are neighbours."""
    _make_table(connection, "written", "number int, instance_id uuid")
    connection.execute(
        "insert into written select n, (lpad(to_hex((extract(epoch from now()) * 1000)::bigint + n / 20), 12, '0')"
        " || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid"
        " from generate_series(1, %s) n",
        (count,),
    )
    connection.execute(
        "insert into ninelives.flow_instance (instance_id, plan_id, fence, next_sequence, snapshot_sequence, version,"
        " claims, paused, state, created_at, updated_at, flow_id, flow_version, input)"
        " select instance_id, %s, 1, 1, 0, 2, 0, false, %s, now(), now(), %s, %s, %s from written",
        (plan_id, state, plan.flow_id, plan.version, result_of(0).decode()),
    )


def settle(connection: Connection) -> None:
    """Leave the tables as autovacuum would, so that it does not come in the middle, and write what is dirty."""
    for table in TABLES:
        connection.execute(f"vacuum (analyze) ninelives.{table}".encode())
    connection.execute("checkpoint")


def _make_table(connection: Connection, name: str, columns: str) -> None:
    connection.execute(f"drop table if exists {name}".encode())
    connection.execute(f"create temp table {name} ({columns})".encode())


def _text(json: bytes | None) -> str | None:
    return None if json is None else json.decode()
