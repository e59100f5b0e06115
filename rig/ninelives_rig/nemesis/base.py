"""What a nemesis is: one fault that is inflicted on processes, connections or the server of this run, and then undone.

A nemesis tells two things into the history, each with its proof: that it has begun and, if it lasts, that it is over.
The proof says what was seen of it (the kernel's state of a process, bytes that were dropped), not what was intended.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ninelives_rig.campaign import Disturbance
from ninelives_rig.evidence.spec import FAULT_EVENTS
from ninelives_rig.recorder import Recorder

if TYPE_CHECKING:
    from ninelives_rig.cluster.server import PostgresServer
    from ninelives_rig.nemesis.lines import Lines
    from ninelives_rig.nodes import Fleet, Node


@dataclass(frozen=True)
class Ground:
    """What a nemesis may touch: only what this run has made.

    ``server`` is the embedded server, or ``None`` where the run has none of its own; ``dsn`` reaches the server past
    every line; ``lines`` are the nodes' connections, where they lead through a proxy. ``chance`` is seeded.
    """

    fleet: Fleet
    bury: Callable[[str], bool]
    recorder: Recorder
    chance: random.Random
    dsn: str = ""
    server: PostgresServer | None = None
    lines: Lines | None = None
    afflicted: set[str] = field(default_factory=set)
    """The processes of nodes that a lasting fault has hit and not left yet."""


class Nemesis:
    """One fault. ``begin`` inflicts it, ``heal`` undoes it; what is over at once has nothing to heal.

    While a fault with ``silences`` lasts, the server answers nobody, the rig included.
    """

    action: ClassVar[str]
    lasts: ClassVar[bool] = True
    silences: ClassVar[bool] = False

    def __init__(self, ground: Ground, plan: Disturbance, turn: int) -> None:
        self.ground = ground
        self.plan = plan
        self.turn = turn
        self.heal_at = 0.0

    def begin(self) -> bool:
        """Inflict it; false if that cannot be done yet."""
        raise NotImplementedError

    def heal(self) -> None:
        """Undo it."""

    def lasts_from_now(self) -> None:
        """Let it last as long as planned, from this moment."""
        self.heal_at = time.monotonic() + self.plan.hold_s

    def tell(self, proof: str, **fields: object) -> None:
        """Tell that it has begun, and what proves it."""
        self.ground.recorder.event(FAULT_EVENTS[self.action].begun, proof=proof, **fields)

    def tell_over(self, proof: str, **fields: object) -> None:
        """Tell that it is over."""
        over = FAULT_EVENTS[self.action].over
        assert over is not None
        self.ground.recorder.event(over, proof=proof, **fields)


class NodeNemesis(Nemesis):
    """A fault of one node; ``turn`` says which, so that faults that follow each other hit different ones."""

    node: Node | None = None

    def begin(self) -> bool:
        """Choose a node that is not on its way out, nor hit by a fault that lasts: that would make two faults one."""
        candidates = [
            node
            for node in self.ground.fleet.nodes
            if node.order.role == self.plan.role
            and not node.retired
            and node.order.process not in self.ground.afflicted
        ]
        if not candidates:
            return False
        self.node = self.choose(candidates)
        struck = self.strike(self.node)
        if struck and self.lasts:
            self.ground.afflicted.add(self.node.order.process)
        return struck

    def heal(self) -> None:
        """Undo it."""
        assert self.node is not None
        self.release(self.node)
        self.ground.afflicted.discard(self.node.order.process)

    def choose(self, candidates: list[Node]) -> Node:
        """Whose turn it is."""
        return candidates[self.turn % len(candidates)]

    def strike(self, node: Node) -> bool:
        """Inflict it on this node; false if that cannot be done yet."""
        raise NotImplementedError

    def release(self, node: Node) -> None:
        """Undo it for this node."""
