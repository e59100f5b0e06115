"""The instances that commits go to: inserted in bulk, held under one token by a session that nobody else has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGresult

from ninelives import queries
from ninelives.ids import new_instance_id
from ninelives.packing import int4_array, int8, int8_array, json_array, read_ints, text_array, uuid_array

TOKEN: Final = 1
FLOW_ID: Final = "bench"
VERSION: Final = "1"

_PLAN: Final = (
    "insert into ninelives.flow_plan (flow_id, flow_version, fingerprint, plan) values (%s, %s, '', '{}')"
    " on conflict (flow_id, flow_version) do update set fingerprint = '' returning plan_id"
)
_SESSION: Final = (
    "insert into ninelives.node_session (session_id, node_name, server_start, opened_at, expires_at)"
    " values (%s, 'bench', pg_postmaster_start_time(), now(), now() + interval '1 day')"
)
_ROWS_A_STATEMENT: Final = 5_000


@dataclass(frozen=True, slots=True)
class Population:
    """``count`` instances from ``first`` on, whose ids are a time-ordered prefix and their number."""

    prefix: str
    """Of the id as text: everything before its last twelve digits."""
    first: int
    count: int

    @property
    def ids(self) -> list[bytes]:
        """The ids as the store takes them."""
        head = UUID(self.prefix + "0" * 12).bytes[:10]
        return [head + number.to_bytes(6, "big") for number in range(self.first, self.first + self.count)]

    def split(self, parts: int) -> list[Population]:
        """Divide the instances among nodes; nobody gets what is left over."""
        each = self.count // parts
        return [Population(self.prefix, self.first + part * each, each) for part in range(parts)]


def insert_population(dsn: str, count: int) -> Population:
    """Make ``count`` instances, held and at work, and vacuum: what follows does not pay for the bulk insert.

    By the runtime's own statement that starts and holds, so that they are as a node makes them.
    """
    texts = queries.load("ninelives")
    population = Population(str(new_instance_id())[:24], 0, count)
    session = time.time_ns() >> 1
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(_PLAN.encode(), [FLOW_ID, VERSION]).fetchone()
        assert row is not None
        connection.execute(_SESSION.encode(), [session])
        ids = population.ids
        for at in range(0, count, _ROWS_A_STATEMENT):
            part = ids[at : at + _ROWS_A_STATEMENT]
            answer = _execute(connection, texts["start_held"], _held(part, int(row[0]), session))
            if set(read_ints(answer.get_value(0, 1))) != {TOKEN}:
                raise RuntimeError(f"the instances of the benchmark are not held under token {TOKEN}")
        connection.execute("vacuum (analyze) ninelives.flow_instance, ninelives.flow_lease, ninelives.flow_wake")
    return population


def _held(ids: Sequence[bytes], plan_id: int, session: int) -> list[bytes]:
    """The parameters of `start_held`, binary."""
    count = len(ids)
    return [
        uuid_array(ids), int4_array([plan_id] * count), text_array([FLOW_ID.encode()] * count),
        text_array([VERSION.encode()] * count), json_array([b"{}"] * count), int8_array([0] * count), int8(session),
    ]  # fmt: skip


def _execute(connection: psycopg.Connection, text: str, parameters: Sequence[bytes]) -> PGresult:
    answer = connection.pgconn.exec_params(
        text.encode(), parameters, param_formats=[1] * len(parameters), result_format=1
    )
    if answer.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise RuntimeError(f"the instances of the benchmark could not be made: {answer.get_error_message()}")
    return answer


def count_steps(dsn: str, population: Population) -> int:
    """Return how many step rows the journal has of all instances with the population's prefix."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "select count(*) from ninelives.flow_step where instance_id between %s and %s",
            [UUID(population.prefix + "0" * 12), UUID(population.prefix + "f" * 12)],
        ).fetchone()
    assert row is not None
    return int(row[0])
