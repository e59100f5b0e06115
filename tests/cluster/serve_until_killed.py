"""A small rig: one run, one server, then wait. Started by tests, which kill or interrupt it."""

from __future__ import annotations

import json
import pwd
import sys
from pathlib import Path

from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory


def main(base: Path) -> None:
    """Print where the server is, and wait until standard input ends."""
    with RunDirectory.create(base=base) as run, PostgresServer.create(run) as server:
        assert server.postmaster is not None
        told = {
            "run": str(run.path),
            "data": str(server.data),
            "dsn": server.dsn,
            "postmaster": [server.postmaster.pid, server.postmaster.start_time],
            "user": pwd.getpwuid(Path(f"/proc/{server.postmaster.pid}").stat().st_uid).pw_name,
        }
        print(json.dumps(told), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
