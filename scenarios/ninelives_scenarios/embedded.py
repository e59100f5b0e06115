"""A database for examples: the one that the caller names, else an embedded server that lives as long as the example."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def database() -> Iterator[str]:
    """Yield the DSN given as the first argument or in NINELIVES_DSN, else that of a server started for this program.

    Raises the cluster's errors, which say what to do, when no server can be started.
    """
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NINELIVES_DSN")
    if given:
        yield given
        return
    # Only here: with a DSN the example needs nothing but the runtime.
    from ninelives_rig.cluster.server import PostgresServer
    from ninelives_rig.rundir import RunDirectory

    with RunDirectory.create() as run, PostgresServer.create(run) as server:
        yield server.dsn
