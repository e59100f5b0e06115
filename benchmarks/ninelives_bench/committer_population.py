"""The instances that commits go to: inserted in bulk, held under one token by a session that nobody else has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import psycopg

from ninelives.ids import new_instance_id

TOKEN: Final = 1
FLOW_ID: Final = "bench"
VERSION: Final = "1"

_INSERTS: Final = (
    "insert into ninelives.flow_plan (flow_id, flow_version, fingerprint, plan)"
    " values (%(flow)s, %(version)s, '', '{}') on conflict do nothing",
    "insert into ninelives.node_session (session_id, node_name, server_start, opened_at, expires_at)"
    " values (%(session)s, 'bench', pg_postmaster_start_time(), now(), now() + interval '1 day')",
    "insert into ninelives.flow_instance (instance_id, plan_id, fence, next_sequence, state_bag_sequence, version,"
    " claims, paused, state, created_at, updated_at, flow_id, flow_version, input)"
    " select (%(prefix)s || lpad(to_hex(n), 12, '0'))::uuid, p.plan_id, %(token)s, 1, 0, 0, 1, false, 'Running',"
    " now(), now(), p.flow_id, p.flow_version, '{}'"
    " from ninelives.flow_plan p, generate_series(0, %(count)s - 1) as n"
    " where p.flow_id = %(flow)s and p.flow_version = %(version)s",
    "insert into ninelives.flow_lease (instance_id, token, holder)"
    " select (%(prefix)s || lpad(to_hex(n), 12, '0'))::uuid, %(token)s, %(session)s"
    " from generate_series(0, %(count)s - 1) as n",
    "insert into ninelives.flow_wake (instance_id, plan_id, seq, seen_seq, holder)"
    " select (%(prefix)s || lpad(to_hex(n), 12, '0'))::uuid, p.plan_id, 1, 0, %(session)s"
    " from ninelives.flow_plan p, generate_series(0, %(count)s - 1) as n"
    " where p.flow_id = %(flow)s and p.flow_version = %(version)s",
)


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
    """Make ``count`` instances, held and at work, and vacuum: what follows does not pay for the bulk insert."""
    prefix = str(new_instance_id())[:24]
    values = {
        "flow": FLOW_ID, "version": VERSION, "session": time.time_ns() >> 1, "prefix": prefix, "token": TOKEN,
        "count": count,
    }  # fmt: skip
    with psycopg.connect(dsn, autocommit=True) as connection:
        with connection.transaction():
            for statement in _INSERTS:
                connection.execute(statement.encode(), values)
        connection.execute("vacuum (analyze) ninelives.flow_instance, ninelives.flow_lease, ninelives.flow_wake")
    return Population(prefix, 0, count)


def count_steps(dsn: str, population: Population) -> int:
    """Return how many step rows the journal has of all instances with the population's prefix."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "select count(*) from ninelives.flow_step where instance_id between %s and %s",
            [UUID(population.prefix + "0" * 12), UUID(population.prefix + "f" * 12)],
        ).fetchone()
    assert row is not None
    return int(row[0])
