"""What identifies a run: its id, the commit, the machine, the server's settings, and the plan that was carried out."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ninelives_bench.ground import Ground
from ninelives_bench.suite import Plan
from ninelives_bench.verdicts import SCHEMA
from ninelives_rig.environment import describe_commit, describe_environment, read_server_settings


def identify(ground: Ground, plan: Plan) -> dict[str, Any]:
    """Return what the summary and the manifest have in common."""
    commit, dirty = describe_commit()
    now = datetime.now(UTC)
    return {
        "schema": SCHEMA,
        "run_id": f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        "commit": commit,
        "dirty": dirty,
        "quick": plan.quick,
        "seed": plan.seed,
        "started_at": now.isoformat(timespec="seconds"),
        "settings": read_server_settings(ground.server.dsn),
    }


def describe(identity: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the manifest."""
    return {**identity, "environment": describe_environment(), "plan": asdict(plan)}
