"""What edited functions call: code that is too long to stand in an edit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql


async def peek(node: Any) -> dict[bytes, int]:
    """Return how many rows each live instance has, read outside of the claim."""
    table = sql.Identifier(node.schema, "flow_instance")
    async with await psycopg.AsyncConnection.connect(node.dsn, autocommit=True) as connection:
        query = sql.SQL("select instance_id, next_sequence - 1 from {} where finished_at is null").format(table)
        return {row[0].bytes: row[1] for row in await (await connection.execute(query)).fetchall()}


def forget(taken: Sequence[Any] | None, peeked: dict[bytes, int]) -> list[Any] | None:
    """Return claims with the rows that were there at the peek, as if they had been read then."""
    if taken is None:
        return None
    return [
        replace(one, steps=tuple(step for step in one.steps if step.sequence <= peeked.get(one.instance_id, 0)))
        for one in taken
    ]


async def insert_wake(client: Any, row: Any, verdict: str) -> None:
    """Insert the wake of a start that is acknowledged already, in a transaction of its own."""
    if verdict == "exists":
        return
    holder = client.session_id if verdict == "held" else None
    query = sql.SQL(
        "insert into {} (instance_id, plan_id, seq, seen_seq, run_at, holder)"
        " values (%s, %s, 1, 0, case when %s::bigint is null then now() end, %s) on conflict do nothing"
    ).format(sql.Identifier(client.schema, "flow_wake"))
    values = [UUID(bytes=row.instance_id), row.plan_id, holder, holder]
    async with await psycopg.AsyncConnection.connect(client.dsn, autocommit=True) as connection:
        await connection.execute(query, values)


async def parked(control: Any, instance_id: bytes) -> None:
    """Return when an instance, unknown a moment ago, has been started and rests; without it after a minute."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        known = await control.known(instance_id)
        if known is not None and known[0] == "Suspended":
            return
        await asyncio.sleep(0.05)
