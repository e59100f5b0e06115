"""Faults of the whole server, for one that the run has started itself: crashed, restarted, frozen."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from ninelives_rig.identity import ProcessIdentity, kill_all, wait_stopped
from ninelives_rig.nemesis.base import Nemesis

if TYPE_CHECKING:
    from ninelives_rig.cluster.server import PostgresServer

_STOP_TIMEOUT_S = 5.0


class _ServerNemesis(Nemesis):
    silences = True

    @property
    def server(self) -> PostgresServer:
        """The run's own server: an arm that needs one is not run without it."""
        assert self.ground.server is not None
        return self.ground.server


class Crash(_ServerNemesis):
    """SIGKILL the postmaster and every backend at once; start the server again when the time is up."""

    action = "crash"

    def begin(self) -> bool:
        """Kill them, and have it proved."""
        proof = self.server.crash()
        told = f"postmaster exited with {proof.exit_code}, and {len(proof.backends)} processes with it"
        self.tell(told, child_pid=proof.postmaster.pid, exitcode=proof.exit_code)
        self.lasts_from_now()
        return True

    def heal(self) -> None:
        """Start the server, which recovers from its journal first."""
        self.server.start()
        self.tell_over("it accepts connections and is the same cluster")


class Restart(_ServerNemesis):
    """Stop the server the fast way, which cuts every client off, and start it again when the time is up."""

    action = "restart"

    def begin(self) -> bool:
        """Stop it."""
        postmaster = self.server.postmaster
        assert postmaster is not None
        self.server.stop()
        self.tell(f"process {postmaster.pid} is {'alive' if postmaster.alive() else 'gone'}", child_pid=postmaster.pid)
        self.lasts_from_now()
        return True

    def heal(self) -> None:
        """Start it."""
        self.server.start()
        self.tell_over("it accepts connections and is the same cluster")


class FreezeServer(_ServerNemesis):
    """Stop every process of the server where it stands: connections stay open, and nothing answers."""

    action = "freeze-server"
    _frozen: tuple[ProcessIdentity, ...] = ()

    def begin(self) -> bool:
        """Stop the postmaster first, so that no backend is born meanwhile; then all others."""
        processes = self.server.processes()
        postmaster = processes[0]
        postmaster.kill(signal.SIGSTOP)
        self._frozen = tuple(self.server.processes())
        kill_all(self._frozen, signal.SIGSTOP)
        stopped = wait_stopped(self._frozen, _STOP_TIMEOUT_S)
        self.tell(f"{stopped} of {len(self._frozen)} processes are in state T", child_pid=postmaster.pid)
        self.lasts_from_now()
        return True

    def heal(self) -> None:
        """Let all go on, the postmaster last."""
        states = "".join(sorted(process.state() for process in self._frozen))
        kill_all(reversed(self._frozen), signal.SIGCONT)
        self.tell_over(f"were in the states {states}")
