"""A node is killed with instances at work: all are finished elsewhere, and nothing of the nodes is left."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ninelives_bench import takeover
from ninelives_bench.ground import Ground
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import QUICK, TakeoverPlan
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.identity import ProcessIdentity, descendants

pytestmark = [pytest.mark.postgres, pytest.mark.chaos]


def test_all_instances_of_a_killed_node_are_finished_by_the_other_one(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    plan = dataclasses.replace(QUICK, takeover=TakeoverPlan(instances=25, repeats=2))
    before = set(descendants(ProcessIdentity.current()))
    found = takeover.measure(Ground(postgres_server), plan, SampleStore(tmp_path))
    assert (found["instances"], found["failed"]) == (25, 0)
    for name in ("seen_ms", "first_commit_ms", "all_finished_ms", "observed_ms"):
        assert found[name]["n"] == 2
        assert found[name]["p50"] > 0
    assert found["all_finished_ms"]["max"] >= found["first_commit_ms"]["max"]
    left = set(descendants(ProcessIdentity.current())) - before
    assert left <= set(postgres_server.processes()) | helpers(left)


def helpers(processes: set[ProcessIdentity]) -> set[ProcessIdentity]:
    """The process with which multiprocessing tracks its semaphores stays as long as this one."""
    tracked = set()
    for process in processes:
        if b"resource_tracker" in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            tracked.add(process)
    return tracked
