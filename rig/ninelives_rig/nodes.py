"""The node processes of an arm: forked from a warm server, replaced at once when they die, ended by
identity.

A node is known by pid and start time, never by pid alone. Its exit code comes from the fork server, which
reaps it, so a kill is proved by the kernel's own word (-9) for that very process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from ninelives_rig.engines.base import Engine, NodeOrder
from ninelives_rig.identity import ProcessIdentity, kill_all
from ninelives_rig.node_entry import enter
from ninelives_rig.recorder import Recorder
from ninelives_rig.rundir import RunDirectory
from ninelives_rig.schedule import Kill

_PRELOAD = ("ninelives_rig.lifeline", "ninelives_rig.node_entry", "uvloop", "orjson", "psycopg")
_FAILURES_IN_A_ROW_MAX = 8
_RESPAWN_S, _RESPAWN_S_MAX = 0.05, 1.0
_END_TIMEOUT_S = 10.0


class NodesBroken(Exception):
    """Nodes end without having been killed, again and again: the rig or the engine cannot run here."""


@contextmanager
def fork_server(engine: Engine, run_directory: RunDirectory) -> Iterator[None]:
    """Keep a server warm that has imported everything a node needs, and from which nodes are forked in milliseconds.

    Its socket lies in the run directory, so that a killed rig leaves none elsewhere; its name is short
    because a socket's path may be. The server ends when this
    process does, in whatever way, and its nodes with it.
    """
    sockets = run_directory.path / "f"
    sockets.mkdir()
    # multiprocessing has no public way to say where its socket goes, or to end the server before the process ends.
    settings: dict[str, object] = multiprocessing.current_process()._config  # type: ignore[attr-defined]  # private
    before = settings.get("tempdir")
    settings["tempdir"] = str(sockets)
    try:
        multiprocessing.get_context("forkserver").set_forkserver_preload([*_PRELOAD, *engine.preload])
        # Inherited by every node, which lifts it when it can stop in order: no node dies of a SIGTERM that comes early.
        # The resource tracker is started first, because its start lifts the block.
        resource_tracker.ensure_running()
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        yield
    finally:
        # It is waited for without a bound, and it could be frozen or wait itself for a node that nobody knows of.
        # So it is not asked: the kernel ends its nodes with it.
        pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]  # private
        if pid is not None:
            with suppress(ProcessLookupError):
                ProcessIdentity.of(pid).kill()
        forkserver._forkserver._stop()  # type: ignore[attr-defined]  # private
        settings["tempdir"] = before


@dataclass
class Node:
    """One incarnation of a slot."""

    order: NodeOrder
    identity: ProcessIdentity
    handle: ForkServerProcess
    retired: bool = False


class Fleet:
    """The nodes of one arm, as they should be and as they are."""

    def __init__(
        self,
        orders: Iterable[NodeOrder],
        kills: Sequence[Kill],
        run_directory: RunDirectory,
        recorder: Recorder,
    ) -> None:
        self.restarts = 0
        self.killed = 0
        self._orders = list(orders)
        self._kills = list(kills)
        self._run_directory = run_directory
        self._recorder = recorder
        self._context = multiprocessing.get_context("forkserver")
        self._nodes: dict[str, Node] = {}
        self._incarnations: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._owed: list[tuple[float, NodeOrder]] = []
        self._stopping = False

    @property
    def nodes(self) -> list[Node]:
        """The nodes that have not been reaped."""
        return list(self._nodes.values())

    def start(self) -> None:
        """Start one node for every slot."""
        for order in self._orders:
            self._spawn(order)

    def reap(self, timeout_s: float) -> int:
        """Wait up to ``timeout_s`` for nodes to end, record how each ended and replace it; returns how many did.

        It returns when the next replacement is due, so that it comes in time.

        Raises ``NodesBroken`` when nodes keep ending without having been killed.
        """
        self._spawn_owed()
        if self._owed and not self._stopping:
            timeout_s = min(timeout_s, max(0.0, min(due for due, _ in self._owed) - time.monotonic()))
        if not self._nodes:
            time.sleep(timeout_s)
            return 0
        by_sentinel = {node.handle.sentinel: node for node in self._nodes.values()}
        ended = connection.wait(list(by_sentinel), timeout_s)
        for sentinel in ended:
            self._bury(by_sentinel[sentinel])  # type: ignore[index]  # wait() is typed for every waitable
        return len(ended)

    def retire(self, node: Node) -> None:
        """Ask one node to leave in order (SIGTERM); another takes its slot when it is gone."""
        node.retired = True
        node.identity.kill(signal.SIGTERM)

    def stop(self, drain_s: float, on_wait: Callable[[], None] = lambda: None) -> None:
        """End every node: in order within ``drain_s``, then by SIGKILL. Nothing is replaced any more."""
        self._stopping = True
        for node in self.nodes:
            node.identity.kill(signal.SIGCONT)
            node.identity.kill(signal.SIGTERM)
        end = time.monotonic() + drain_s
        while self._nodes and time.monotonic() < end:
            self.reap(0.1)
            on_wait()
        self.kill()

    def kill(self) -> None:
        """SIGKILL what is left, frozen nodes too, and wait until the fork server has reaped each of them."""
        self._stopping = True
        kill_all(node.identity for node in self.nodes)
        end = time.monotonic() + _END_TIMEOUT_S
        while self._nodes and time.monotonic() < end:
            self.reap(0.1)
        if self._nodes:
            left = ", ".join(str(node.identity.pid) for node in self.nodes)
            raise NodesBroken(f"processes {left} did not end {_END_TIMEOUT_S:.0f} s after SIGKILL")

    def _spawn(self, order: NodeOrder) -> None:
        number = self._incarnations.get(order.slot, 0) + 1
        self._incarnations[order.slot] = number
        order = replace(order, process=f"{order.slot}.{number}")
        theirs, ours = self._context.Pipe(duplex=False)
        handle = self._context.Process(
            target=enter,
            args=(order, self._kills, self._run_directory.path, theirs),
            name=order.process,
            daemon=True,
        )
        handle.start()
        theirs.close()
        assert handle.pid is not None
        identity = _identity(handle.pid)
        self._nodes[order.slot] = Node(order, identity, handle)
        self._run_directory.register_process(identity, order.process)
        self._recorder.event(
            "process.started",
            child=order.process,
            role=order.role,
            child_pid=identity.pid,
            child_start_time=identity.start_time,
        )
        with suppress(BrokenPipeError):
            ours.send_bytes(b"go")
        ours.close()

    def _bury(self, node: Node) -> None:
        node.handle.join()
        exitcode = node.handle.exitcode
        node.handle.close()
        del self._nodes[node.order.slot]
        self._recorder.event(
            "process.exited",
            child=node.order.process,
            child_pid=node.identity.pid,
            child_start_time=node.identity.start_time,
            exitcode=exitcode,
        )
        was_killed = exitcode == -signal.SIGKILL
        self.killed += was_killed and not self._stopping
        slot = node.order.slot
        self._failures[slot] = failures = 0 if was_killed or node.retired else self._failures.get(slot, 0) + 1
        if self._stopping:
            return
        if failures > _FAILURES_IN_A_ROW_MAX:
            log = node.order.arm_root / "logs" / f"{node.order.process}.log"
            raise NodesBroken(
                f"{failures} nodes in a row ended by themselves; the last, {node.order.process}, with exit code "
                f"{exitcode}. The end of {log}:\n{_tail(log)}"
            )
        # One that ends by itself meets what it cannot cope with, a full server perhaps: the next one comes later.
        delay_s = min(_RESPAWN_S_MAX, _RESPAWN_S * 2**failures) if failures else 0.0
        self._owed.append((time.monotonic() + delay_s, node.order))
        self._spawn_owed()

    def _spawn_owed(self) -> None:
        """Replace the nodes whose turn has come."""
        now = time.monotonic()
        due = [] if self._stopping else [entry for entry in self._owed if entry[0] <= now]
        for entry in due:
            self._owed.remove(entry)
            self.restarts += 1
            self._spawn(entry[1])


def _identity(pid: int) -> ProcessIdentity:
    """Identify a child that waits for its go; if it is gone already, start time 0 matches no process."""
    try:
        return ProcessIdentity.of(pid)
    except ProcessLookupError:
        return ProcessIdentity(pid, 0)


def _tail(path: Path, lines: int = 12) -> str:
    try:
        return os.linesep.join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(it wrote no log)"
