"""The witness: what really happened outside the engine's database, in the order of each process.

One file a process, one write(2) an effect, with a dense sequence number: a lost line shows as a gap.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from uuid import UUID

from ninelives_rig.recorder import AppendFile


class Witness:
    """Records the effects that step bodies have in this process."""

    __slots__ = ("_file", "_pid", "_seq", "process")

    def __init__(self, path: Path, process: str) -> None:
        self.process = process
        self._pid = os.getpid()
        self._seq = 0
        self._file = AppendFile(path)

    def effect(
        self,
        instance_id: UUID,
        scope: str,
        step_id: int,
        attempt: int,
        token: int,
        kind: str,
        key: str,
    ) -> dict[str, object]:
        """Let an effect happen: when this returns, it has happened and survives SIGKILL."""
        record = self.describe(instance_id, scope, step_id, attempt, token, kind, key)
        record["seq"] = self._seq + 1
        self._file.append(record)
        self._seq += 1
        return record

    @property
    def written(self) -> int:
        """How many lines this process has written."""
        return self._seq

    def describe(
        self,
        instance_id: UUID,
        scope: str,
        step_id: int,
        attempt: int,
        token: int,
        kind: str,
        key: str,
    ) -> dict[str, object]:
        """Return the record of an effect, without a sequence number, for a sink that stores it itself."""
        return {
            "t": time.monotonic_ns(),
            "seq": 0,
            "process": self.process,
            "pid": self._pid,
            "instance_id": str(instance_id),
            "scope": scope,
            "step_id": step_id,
            "attempt": attempt,
            "token": token,
            "kind": kind,
            "key": key,
        }

    def close(self) -> None:
        """Close the witness of this process."""
        self._file.close()
