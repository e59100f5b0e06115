"""The plan that the server has for the claim, under the settings of a node's connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from ninelives.queries import load
from ninelives.store.claims import Limits
from ninelives.wire import SESSION_SETTINGS


def sequential_scans(dsn: str, session_id: int, plan_id: int, limits: Limits) -> list[str]:
    """Return the tables that a claim reads from end to end; [] is as it must be."""
    statement = load("ninelives")["claim"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for setting in SESSION_SETTINGS:
            connection.execute(setting.encode())
        connection.execute(f"prepare explained as {statement}".encode())
        arguments = (
            f"{session_id}, array[{plan_id}], {limits.due}, {limits.orphaned}, {limits.suspicious_claims},"
            f" {limits.suspects}"
        )
        row = connection.execute(f"explain (format json) execute explained ({arguments})".encode()).fetchone()
    assert row is not None
    return sorted({node["Relation Name"] for node in _nodes(row[0][0]["Plan"]) if node["Node Type"] == "Seq Scan"})


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
