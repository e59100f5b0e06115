"""Writing a bundle: its directories, its JSON files, the tables copied out of the server.

Whoever opens a bundle for writing removes what an earlier run left in it first, the verdict before all else: an old
verdict must never stand beside new evidence.
"""

from __future__ import annotations

import csv
import fcntl
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson
import psycopg
from psycopg.sql import SQL, Composed

from ninelives_rig.evidence.spec import RUN_KEYS

_OURS = ("verdict.json", "report.md", "plots", "digests.json", "arms", "manifest.json")
_ARM_FOLDERS = ("receipts", "history", "witness", "tables", "logs")


class OutRefused(Exception):
    """The output directory cannot be used; the text says why and what to do."""


def write_json(path: Path, value: object) -> None:
    """Put a JSON file in place whole: a reader sees the old one or the new one."""
    draft = path.with_name(path.name + ".draft")
    draft.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
    draft.replace(path)


class BundleWriter:
    """One bundle being written by one run. ``close`` lets the next writer in."""

    def __init__(self, root: Path) -> None:
        """Take the directory for this run, emptied of an earlier bundle; ``OutRefused`` if it holds anything else."""
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise OutRefused(f"cannot write to {root}: {error.strerror}; choose another place with --out") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._clear()
        except BlockingIOError:
            os.close(self._lock)
            raise OutRefused(f"another run is writing to {root}; wait for it, or choose another --out") from None
        except BaseException:
            os.close(self._lock)
            raise

    def arm(self, name: str) -> ArmFolder:
        """Make the folder of an arm."""
        return ArmFolder(self.root / "arms" / name, _identity(self.root / "manifest.json"))

    def manifest(self, manifest: Mapping[str, object]) -> None:
        """Write or replace the manifest."""
        write_json(self.root / "manifest.json", manifest)

    def close(self) -> None:
        """Let others write here again."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _clear(self) -> None:
        entries = sorted(path.name for path in self.root.iterdir())
        if entries and not _is_bundle(self.root / "manifest.json"):
            raise OutRefused(
                f"{self.root} holds {entries[0]!r} and is not a bundle; name an empty or a new directory with --out"
            )
        for name in _OURS:
            path = self.root / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _is_bundle(manifest: Path) -> bool:
    """Tell a manifest of ours from any other file of that name, whose neighbours are not ours to remove."""
    try:
        content = orjson.loads(manifest.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(content, dict) and {"schema", "campaign", "engine", "seed", "arms"} <= content.keys()


def _identity(manifest: Path) -> dict[str, object] | None:
    """Return which run a bundle is of, as its manifest says before anything has happened."""
    try:
        content = orjson.loads(manifest.read_bytes())
    except FileNotFoundError:
        return None
    return {key: content.get(key) for key in RUN_KEYS}


class ArmFolder:
    """The folder of one arm. ``run`` says which run it belongs to."""

    def __init__(self, root: Path, run: Mapping[str, object] | None = None) -> None:
        self.root = root
        self._run = run
        for name in _ARM_FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)

    @property
    def receipts(self) -> Path:
        """Where processes announce their own deaths."""
        return self.root / "receipts"

    @property
    def history(self) -> Path:
        """Where each process writes its events."""
        return self.root / "history"

    @property
    def logs(self) -> Path:
        """What processes printed, and the server's log."""
        return self.root / "logs"

    def describe(self, arm: Mapping[str, object]) -> None:
        """Write or replace ``arm.json``, with the run that it is of and how much the coordinator has told so far.

        The coordinator has no other closing line: at the last call everything that it tells has happened.
        """
        told = self.history / "coordinator.jsonl"
        lines = told.read_bytes().count(b"\n") if told.exists() else 0
        write_json(self.root / "arm.json", {**arm, "coordinator_events": lines, "run": self._run})

    def instances(self, rows: Iterable[Sequence[object]]) -> None:
        """Write the registered instances, before any node exists."""
        with (self.root / "instances.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("index", "instance_id", "started_by"))
            writer.writerows(rows)
            file.flush()
            os.fsync(file.fileno())

    def schedule(self, kills: Sequence[Mapping[str, object]]) -> None:
        """Write the kills to come."""
        write_json(self.root / "schedule.json", list(kills))

    def sink(self, records: Iterable[dict[str, object]]) -> None:
        """Write what the sink holds, in the order of time, with a dense sequence; nothing if it holds nothing."""
        ordered = sorted(records, key=lambda record: (record["t"], record["key"]))
        if not ordered:
            return
        lines = [orjson.dumps({**record, "seq": seq}) for seq, record in enumerate(ordered, start=1)]
        (self.root / "witness" / "sink.jsonl").write_bytes(b"\n".join(lines) + b"\n")

    def tables(self, connection: psycopg.Connection[tuple[object, ...]], queries: Mapping[str, Composed]) -> None:
        """Copy tables from the server as CSV, all of one snapshot."""
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            for name, query in queries.items():
                statement = SQL("copy ({}) to stdout (format csv, header)").format(query)
                target = self.root / "tables" / f"{name}.csv"
                with target.open("wb") as file, connection.cursor().copy(statement) as copy:
                    for block in copy:
                        file.write(block)
