"""The result folder of a benchmark run as reports see it: summary, manifest, raw samples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from ninelives_reports.load import Record, record, records

SCHEMA = 1
Samples = npt.NDArray[np.float64]
Columns = dict[str, Samples]


class FolderUnreadable(ValueError):
    """A folder does not hold the results of a run."""


@dataclass(frozen=True)
class BenchFolder:
    """A result folder; whatever is not in it reads as empty."""

    root: Path
    summary: Record
    manifest: Record
    files: dict[str, Path] = field(repr=False)
    """The files of samples by the name that `samples` looks for."""

    @property
    def settings(self) -> Record:
        """The server's settings by name."""
        return record(self.summary.get("settings")) or record(self.manifest.get("settings"))

    @property
    def environment(self) -> Record:
        """The machine and the versions of what ran on it."""
        return record(self.manifest.get("environment")) or record(self.manifest.get("host"))

    def part(self, *path: str) -> Record:
        """Return the object of the summary at `path`; empty where there is none."""
        found = self.summary
        for name in path:
            found = record(found.get(name))
        return found

    def rows(self, *path: str) -> list[Record]:
        """Return the list of objects at `path`; empty where there is none."""
        return records(self.part(*path[:-1]).get(path[-1]))

    def samples(self, *names: str) -> Columns | None:
        """Return the columns of figures of the first file that has one of `names`; None without such a file."""
        for name in names:
            path = self.files.get(_plain_name(name))
            if path is not None:
                return _read_columns(path)
        return None


def load_folder(root: Path) -> BenchFolder:
    """Read a result folder; raises `FolderUnreadable` when it has no summary that can be read."""
    summary = _read_object(root / "summary.json")
    if not summary:
        raise FolderUnreadable(f"{root} has no summary.json that can be read; name the folder that a run wrote")
    files = {_plain_name(path.stem): path for path in sorted((root / "samples").glob("*.parquet"))}
    return BenchFolder(root, summary, _read_object(root / "manifest.json"), files)


def _read_object(path: Path) -> Record:
    try:
        return record(orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError):
        return {}


def _plain_name(name: str) -> str:
    """Write a name so that dashes, underscores and dots do not matter."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _read_columns(path: Path) -> Columns | None:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no types; a report of the chaos rig does without it
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid):
        return None
    columns: dict[str, Any] = {name: table.column(name).to_numpy() for name in table.column_names}
    return {name: values.astype(np.float64) for name, values in columns.items() if values.dtype.kind in "iufb"}
