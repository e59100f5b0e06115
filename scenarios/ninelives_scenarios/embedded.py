"""A database for examples: the one that the caller names, else an embedded server that lives as long as the example."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ninelives import NinelivesError


@contextmanager
def database() -> Iterator[str]:
    """Yield the DSN given as the first argument or in NINELIVES_DSN, else that of a server started for this program.

    A program for people: what the runtime or the server cannot do ends it with one line that says what to do next.
    """
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NINELIVES_DSN")
    try:
        if given:
            yield given
        else:
            yield from _own_server()
    except NinelivesError as error:
        raise SystemExit(f"error: {error}") from None


def _own_server() -> Iterator[str]:
    # Only here: with a DSN the example needs nothing but the runtime.
    from ninelives_rig.cluster.errors import ClusterError
    from ninelives_rig.cluster.server import PostgresServer
    from ninelives_rig.rundir import RunDirectory

    try:
        with RunDirectory.create() as run, PostgresServer.create(run) as server:
            yield server.dsn
    except ClusterError as error:
        raise SystemExit(f"error: {error}") from None
