"""What is committed of the explored instance, read with one statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from ninelives_rig.explore.backend import Monitor

TABLES = ("node_session", "flow_instance", "flow_step", "flow_intent", "flow_lease", "flow_wake", "flow_signal")
"""The tables that an exploration empties and fills."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The committed rows of the instance, as JSON gives them.

    ``by`` is the letter of the operation whose commit led here, ``acting`` the token under which it acted, or 0.
    """

    by: str
    acting: int
    instance: dict[str, Any] | None
    wake: dict[str, Any] | None
    lease: dict[str, Any] | None
    steps: tuple[dict[str, Any], ...]
    signals: tuple[dict[str, Any], ...]
    intents: tuple[dict[str, Any], ...]
    dead: dict[int, str]
    """When each session that is dead was declared so."""
    expiry: dict[int, str]

    @property
    def finished(self) -> bool:
        """Whether the instance has ended."""
        return self.instance is not None and self.instance["finished_at"] is not None

    @property
    def paused(self) -> bool:
        """Whether the instance is paused."""
        return self.instance is not None and bool(self.instance["paused"])

    @property
    def fence(self) -> int:
        """The fence; 0 without an instance."""
        return int(self.instance["fence"]) if self.instance else 0

    @property
    def token(self) -> int:
        """The lease's token; 0 without one."""
        return int(self.lease["token"]) if self.lease else 0

    @property
    def holder(self) -> int | None:
        """The living session that holds the wake."""
        holder = self.wake["holder"] if self.wake else None
        return None if holder is None or holder in self.dead or holder not in self.expiry else int(holder)

    @property
    def due(self) -> bool:
        """Whether a claim may take the instance."""
        if self.wake is None:
            return False
        return bool(self.wake["due"]) if self.wake["holder"] is None else self.holder is None

    @property
    def unconsumed(self) -> frozenset[str]:
        """The ids of the signals that no step has consumed."""
        return frozenset(one["signal_id"] for one in self.signals if one["consumed_step_id"] is None)


def picture_query(schema: str) -> str:
    """Return the statement that reads a picture; ``schema`` is quoted."""
    rows = ", ".join(
        f"(select coalesce(json_agg(x order by {order}), '[]') from {schema}.{table} x)"
        for table, order in (
            ("flow_instance", "instance_id"),
            ("flow_lease", "instance_id"),
            ("flow_step", "sequence"),
            ("flow_signal", "signal_seq"),
            ("flow_intent", "step_id, attempt"),
            ("node_session", "session_id"),
        )
    )
    wake = (
        f"(select coalesce(json_agg(x), '[]') from (select w.*, w.run_at <= clock_timestamp() as due"
        f" from {schema}.flow_wake w) x)"
    )
    return f"select json_build_array({wake}, {rows})::text"


def take(monitor: Monitor, query: str, by: str = "", acting: int = 0) -> Picture:
    """Read what is committed now."""
    row = monitor.connection.execute(query.encode(), prepare=True).fetchone()
    assert row is not None
    wakes, instances, leases, steps, signals, intents, sessions = orjson.loads(str(row[0]))
    return Picture(
        by,
        acting,
        instances[0] if instances else None,
        wakes[0] if wakes else None,
        leases[0] if leases else None,
        tuple(steps),
        tuple(signals),
        tuple(intents),
        {int(one["session_id"]): str(one["dead_at"]) for one in sessions if one["dead_at"] is not None},
        {int(one["session_id"]): str(one["expires_at"]) for one in sessions},
    )
