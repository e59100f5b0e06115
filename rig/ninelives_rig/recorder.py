"""The history of one process: one JSON object a line, one write(2) an event, so that SIGKILL loses nothing.

Times are CLOCK_MONOTONIC in nanoseconds, which all processes of one machine share.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import orjson

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class AppendFile:
    """A file that takes whole lines, each by a single write(2)."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, _APPEND, 0o644)

    def append(self, record: dict[str, object]) -> None:
        """Write one record; ``OSError`` if the line did not go in whole (a full disk)."""
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        written = os.write(self._descriptor, line)
        if written != len(line):
            raise OSError(f"{self.path}: {written} of {len(line)} bytes written; is the disk full?")

    def close(self) -> None:
        """Close the file; appending afterwards is an error."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Recorder:
    """Writes the events of one process, numbered from 1, so that a lost line shows as a gap."""

    __slots__ = ("_file", "_lock", "_number", "_pid", "process")

    def __init__(self, directory: Path, process: str) -> None:
        self.process = process
        self._pid = os.getpid()
        # Two threads tell, and a kill in one of them must not come between the number and the line of the other.
        self._lock = threading.Lock()
        self._number = 0
        self._file = AppendFile(directory / f"{process}.jsonl")

    def event(self, event: str, **fields: object) -> int:
        """Record an event now; returns its time in nanoseconds."""
        with self._lock:
            self._number += 1
            now = time.monotonic_ns()
            numbered = {"t": now, "seq": self._number, "process": self.process, "pid": self._pid}
            self._file.append({**numbered, "event": event, **fields})
        return now

    def close(self) -> None:
        """Close the history of this process."""
        self._file.close()
