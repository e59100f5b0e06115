"""Disturbances that fall due together each hit a node of their own, and wait for one where there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast

from ninelives_rig.campaign import Disturbance
from ninelives_rig.disturb import Disturbances
from ninelives_rig.nemesis import Ground
from ninelives_rig.recorder import Recorder


@dataclass
class Order:
    role: str
    process: str


@dataclass
class Identity:
    start_time: int
    pid: int = 4711


@dataclass
class Stand:
    order: Order
    identity: Identity
    retired: bool = False


@dataclass
class Fleet:
    nodes: list[Stand]
    asked: list[str] = field(default_factory=list)

    def retire(self, node: Stand) -> None:
        node.retired = True
        self.asked.append(node.order.process)


def test_departures_that_fall_due_together_are_of_different_nodes(tmp_path: Path) -> None:
    fleet = Fleet([Stand(Order("worker", f"worker-{n}.1"), Identity(10 - n)) for n in (1, 2)])
    planned = [Disturbance("terminate", at_done) for at_done in (0.1, 0.2, 0.3)]
    ground = Ground(cast(Any, fleet), lambda process: True, Recorder(tmp_path, "coordinator"), Random(1))
    disturbances = Disturbances(planned, 100, ground)
    disturbances.tick(done=50, rows=0)
    assert fleet.asked == ["worker-2.1", "worker-1.1"]  # the oldest first
    assert not disturbances.over
    fleet.nodes[0] = Stand(Order("worker", "worker-1.2"), Identity(20))
    disturbances.tick(done=50, rows=0)
    assert fleet.asked[2:] == ["worker-1.2"]
    assert disturbances.over
