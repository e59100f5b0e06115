"""Faults of a node's process: asked to leave, frozen where it stands, declared dead while it lives."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, ClassVar

from ninelives_rig import starvation
from ninelives_rig.identity import wait_stopped
from ninelives_rig.nemesis.base import NodeNemesis

if TYPE_CHECKING:
    from ninelives_rig.nodes import Node

_STOP_TIMEOUT_S = 5.0
_LOOK_S = 0.02


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

    def release(self, node: Node) -> None:
        """Let it go on, if nobody has killed it meanwhile."""
        state = node.identity.state()
        node.identity.kill(signal.SIGCONT)
        self.tell_over(f"was in state {state}", child=node.order.process, child_pid=node.identity.pid)


class _Starvation(NodeNemesis):
    """Something in a node's own process that keeps it from going on for a while."""

    kind: ClassVar[str]
    intention: ClassVar[str]

    def strike(self, node: Node) -> bool:
        """Ask the process for it."""
        pid = node.identity.pid
        starvation.ask(node.order.work_root, pid, self.kind, self.plan.hold_s)
        self.tell(f"asked to {self.intention} for {self.plan.hold_s:g} s", child=node.order.process, child_pid=pid)
        node.identity.kill(starvation.SIGNAL)
        self.lasts_from_now()
        return True

    def release(self, node: Node) -> None:
        """Wait until it is over, which it is by itself, and tell what the process says of it."""
        pid, until = node.identity.pid, self.heal_at + _STOP_TIMEOUT_S
        while (answer := starvation.answered(node.order.work_root, pid)) is None:
            if not node.identity.alive() or time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        self.tell_over(answer or "no answer came", child=node.order.process, child_pid=pid)


class Starve(_Starvation):
    """Hold a node's interpreter in C code: not even the thread of its heartbeat goes on."""

    action = "starve"
    kind = starvation.HOLD
    intention = "hold the interpreter"


class Block(_Starvation):
    """Sleep in a node's main thread, as a body that blocks: its heartbeat has a thread of its own."""

    action = "block"
    kind = starvation.BLOCK
    intention = "sleep in the main thread"
