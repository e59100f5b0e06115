"""Faults of a node's process: asked to leave, frozen where it stands, declared dead while it lives."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ninelives_rig.identity import wait_stopped
from ninelives_rig.nemesis.base import NodeNemesis

if TYPE_CHECKING:
    from ninelives_rig.nodes import Node

_STOP_TIMEOUT_S = 5.0


class Terminate(NodeNemesis):
    """Ask a node to leave in order. The oldest: one that has just come holds nothing yet."""

    action = "terminate"
    lasts = False

    def choose(self, candidates: list[Node]) -> Node:
        """Choose the one that has been there longest."""
        return min(candidates, key=lambda node: node.identity.start_time)

    def strike(self, node: Node) -> bool:
        """Send SIGTERM; another node takes the slot when this one is gone."""
        self.tell("SIGTERM sent", child=node.order.process, child_pid=node.identity.pid)
        self.ground.fleet.retire(node)
        return True


class Bury(NodeNemesis):
    """Declare a node dead in the store while it lives; nothing else happens to it."""

    action = "bury"
    lasts = False

    def strike(self, node: Node) -> bool:
        """Mark its session dead, if the store knows it already."""
        if not self.ground.bury(node.order.process):
            return False
        self.tell("its session is marked dead", child=node.order.process, child_pid=node.identity.pid)
        return True


class Freeze(NodeNemesis):
    """Stop a node where it stands (SIGSTOP) and let it go on later, a zombie that knows nothing of the time between."""

    action = "freeze"

    def strike(self, node: Node) -> bool:
        """Stop it, and see in the kernel that it is stopped."""
        # Told in front: whatever this process does from here on, it does without knowing what it misses.
        self.tell("SIGSTOP sent", child=node.order.process, child_pid=node.identity.pid)
        node.identity.kill(signal.SIGSTOP)
        wait_stopped([node.identity], _STOP_TIMEOUT_S)
        self.lasts_from_now()
        return True

    def heal(self) -> None:
        """Let it go on, if nobody has killed it meanwhile."""
        node = self.node
        assert node is not None
        state = node.identity.state()
        node.identity.kill(signal.SIGCONT)
        self.tell_over(f"was in state {state}", child=node.order.process, child_pid=node.identity.pid)
