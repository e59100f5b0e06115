"""Names of the schemas that a run makes on a server, and the removal of what a killed run left on the user's own.

A name says which process made the schema: boot, pid and start time. So a run drops exactly the schemas of dead rigs
of this machine, and never one that another machine, a living rig or `--keep` has put there.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path

import psycopg
from psycopg import sql

from ninelives_rig.identity import ProcessIdentity


def schema_prefix(first: str, keep: bool) -> str:
    """Return what the names of this run's schemas begin with; ``first`` is the user's part."""
    if keep:
        return f"{first}_kept_{secrets.token_hex(3)}"
    me = ProcessIdentity.current()
    return f"{first}_{_boot()}_{me.pid}_{me.start_time}"


def drop_left(dsn: str, first: str) -> list[str]:
    """Drop the schemas of rigs of this machine that are dead; returns their names."""
    ours = re.compile(rf"{re.escape(first)}_{_boot()}_(\d+)_(\d+)_\d+")
    dropped = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        for (name,) in connection.execute("select nspname from pg_namespace order by 1").fetchall():
            found = ours.fullmatch(str(name))
            if found and not ProcessIdentity(int(found[1]), int(found[2])).alive():
                connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))
                dropped.append(name)
    return dropped


def _boot() -> str:
    """The first digits of this boot's id: a pid says nothing about another machine or an earlier boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
