"""The armed kills of one process: the observer that dies where the schedule says, and proves it first.

A receipt is a file made with O_EXCL, so across all processes a kill happens once; it is written by one
write(2) before the process dies, so it survives the death that it announces.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import orjson

from ninelives_rig.schedule import Kill

Delivery = Callable[[], None]


def kill_self() -> None:
    """End this process as a crash does: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def withhold() -> None:
    """Deliver nothing: a rig that lies about its kills, for the sabotage that must catch it."""


DELIVERIES: dict[str, Delivery] = {"sigkill": kill_self, "withheld": withhold}


@dataclass(frozen=True)
class Bearer:
    """The process that carries the arms: its name, role, pid and start time go into each receipt."""

    process: str
    role: str
    pid: int
    start_time: int


class Armory:
    """Fires each armed kill at its boundary. Looking up an instance that is not armed costs one dict
    access.
    """

    __slots__ = ("_armed", "_bearer", "_deliver", "_receipts")

    def __init__(self, kills: Iterable[Kill], receipts: Path, bearer: Bearer, deliver: Delivery = kill_self) -> None:
        self._receipts = receipts
        self._bearer = bearer
        self._deliver = deliver
        fired = {path.stem for path in receipts.iterdir()}
        self._armed: dict[UUID | None, list[Kill]] = {}
        for kill in kills:
            if kill.kill_id not in fired and kill.role in (None, bearer.role):
                self._armed.setdefault(kill.instance_id, []).append(kill)

    def reached(
        self, boundary: str, instance_id: UUID | None, scope: str, step_id: int, attempt: int, token: int
    ) -> None:
        """Die here if this is where a kill is armed and no process has died of it yet."""
        if instance_id in self._armed:
            self._fire(self._armed[instance_id], boundary, instance_id, scope, step_id, attempt, token)
        if instance_id is not None and None in self._armed:
            self._fire(self._armed[None], boundary, instance_id, scope, step_id, attempt, token)

    def _fire(
        self,
        kills: list[Kill],
        boundary: str,
        instance_id: UUID | None,
        scope: str,
        step_id: int,
        attempt: int,
        token: int,
    ) -> None:
        for kill in list(kills):
            here = kill.boundary == boundary and kill.step_id in (0, step_id) and token >= kill.token_min
            if not here:
                continue
            kills.remove(kill)
            if self._receipt(kill, instance_id, scope, step_id, attempt, token):
                self._deliver()

    def _receipt(
        self, kill: Kill, instance_id: UUID | None, scope: str, step_id: int, attempt: int, token: int
    ) -> bool:
        """Claim the kill for this process and write its receipt; False if another process had it."""
        path = self._receipts / f"{kill.kill_id}.json"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        receipt = {
            "kill_id": kill.kill_id,
            "t": time.monotonic_ns(),
            "process": self._bearer.process,
            "role": self._bearer.role,
            "pid": self._bearer.pid,
            "start_time": self._bearer.start_time,
            "instance_id": None if instance_id is None else str(instance_id),
            "scope": scope,
            "step_id": step_id,
            "attempt": attempt,
            "token": token,
            "boundary": kill.boundary,
        }
        try:
            os.write(descriptor, orjson.dumps(receipt))
        finally:
            os.close(descriptor)
        return True
