"""The fleet: nodes told to stop while they are still starting do so in order; nodes that keep ending are a fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.engines import load_engine
from ninelives_rig.engines.base import NodeOrder, NodeSettings, StepSpec, Store, Workload
from ninelives_rig.evidence.writer import ArmFolder
from ninelives_rig.nodes import Fleet, NodesBroken, fork_server
from ninelives_rig.recorder import Recorder
from ninelives_rig.rundir import RunDirectory

pytestmark = [pytest.mark.postgres, pytest.mark.chaos]

ENGINE = load_engine("naive")


@pytest.fixture(scope="module")
def forking(run_directory: RunDirectory) -> Iterator[None]:
    """A warm fork server for the tests of this module."""
    with fork_server(ENGINE, run_directory):
        yield


@pytest.fixture
def order(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[NodeOrder]:
    """The order of a naive worker that has nothing to start."""
    store = Store(postgres_server.dsn, "fleet")
    ENGINE.prepare(store)
    (tmp_path / "work").mkdir()
    yield NodeOrder(
        process="worker-1",
        slot="worker-1",
        role="worker",
        engine="naive",
        store=store,
        workload=Workload("one", (StepSpec("one"),)),
        settings=NodeSettings(ttl_s=30.0, flows_max=4, takeovers_max=0, drain_s=5.0),
        arm_root=ArmFolder(tmp_path / "arm").root,
        work_root=tmp_path / "work",
        start_indexes=[],
        seed=1,
        in_flight=1,
    )
    ENGINE.discard(store)


def fleet_of(orders: list[NodeOrder], run_directory: RunDirectory) -> Fleet:
    """Make a fleet that is not started."""
    return Fleet(orders, [], run_directory, Recorder(orders[0].arm_root / "history", "coordinator"))


def exits(order: NodeOrder) -> list[int]:
    """Exit codes of the nodes, in the order in which they ended."""
    lines = (order.arm_root / "history" / "coordinator.jsonl").read_bytes().splitlines()
    return [event["exitcode"] for event in map(orjson.loads, lines) if event["event"] == "process.exited"]


def test_nodes_that_are_stopped_while_they_start_end_in_order(
    forking: None, order: NodeOrder, run_directory: RunDirectory
) -> None:
    orders = [replace(order, slot=f"worker-{number}") for number in range(1, 5)]
    fleet = fleet_of(orders, run_directory)
    fleet.start()
    fleet.stop(30.0)
    assert exits(order) == [0, 0, 0, 0] and fleet.restarts == 0
    assert len(list((order.arm_root / "history").glob("worker-*.jsonl"))) == 4


def test_a_killed_node_is_replaced_under_a_new_name_and_its_death_is_proved(
    forking: None, order: NodeOrder, run_directory: RunDirectory
) -> None:
    fleet = fleet_of([order], run_directory)
    fleet.start()
    (first,) = fleet.nodes
    assert first.identity.kill()
    assert fleet.reap(30.0) == 1
    (second,) = fleet.nodes
    assert (first.order.process, second.order.process) == ("worker-1.1", "worker-1.2")
    assert second.identity != first.identity and (fleet.restarts, fleet.killed) == (1, 1)
    fleet.stop(30.0)
    assert exits(order) == [-9, 0]


def test_nodes_that_keep_ending_by_themselves_break_the_rig_and_show_their_log(
    forking: None, order: NodeOrder, run_directory: RunDirectory
) -> None:
    wrong = replace(order, store=Store("host=127.0.0.1 port=1 dbname=x", "fleet"))
    fleet = fleet_of([wrong], run_directory)
    fleet.start()
    with pytest.raises(NodesBroken, match=r"(?s)9 nodes in a row.*worker-1\.9.*OperationalError"):
        for _ in range(60):
            fleet.reap(30.0)
    assert set(exits(order)) == {1}
    fleet.kill()
