"""The result folder: emptied of an older run's results at the start, its summary written whole and only at the end."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from ninelives_bench.samples import SampleStore

SUMMARY: Final = "summary.json"
MANIFEST: Final = "manifest.json"
SAMPLES: Final = "samples"
REPORT: Final = "report"


class ResultsRefused(Exception):
    """The folder cannot take results, or has none that can be read; the text says why and what to do."""


class ResultFolder:
    """Where a run writes. Without a summary there is nothing to judge: an aborted run never passes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.samples = SampleStore(root / SAMPLES)

    @classmethod
    def begin(cls, root: Path) -> ResultFolder:
        """Make the folder, or take away the results of an older run in it; other files stay.

        Raises ``ResultsRefused`` when it cannot be written, or holds something that no run has written.
        """
        try:
            if root.exists() and any(root.iterdir()) and not _is_ours(root):
                raise ResultsRefused(f"{root} holds other files; name a new or empty folder, or one of an older run")
            root.mkdir(parents=True, exist_ok=True)
            # The summary first: if this is interrupted, what is left cannot be taken for a result.
            for name in (SUMMARY, MANIFEST):
                (root / name).unlink(missing_ok=True)
            for name in (SAMPLES, REPORT):
                shutil.rmtree(root / name, ignore_errors=True)
        except OSError as error:
            raise ResultsRefused(f"cannot write results to {root}: {error.strerror}") from error
        return cls(root)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write what identifies the run."""
        _write(self.root / MANIFEST, manifest)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write all figures and verdicts; raises ValueError for NaN or infinity, which JSON does not have."""
        _write(self.root / SUMMARY, summary)


def plain(value: Any) -> Any:
    """Return ``value`` as JSON gives it back, so that what is judged is what is written."""
    _refuse_infinite(value, "summary")
    return orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS))


def read_results(root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return summary and manifest of a folder; raises ``ResultsRefused`` when one is missing or no JSON object."""
    return _read(root / SUMMARY), _read(root / MANIFEST)


def _is_ours(root: Path) -> bool:
    return (root / MANIFEST).is_file() or (root / SUMMARY).is_file()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ResultsRefused(
            f"{path} cannot be read ({error}); the run was not finished, or this is no result"
        ) from None
    if not isinstance(found, dict):
        raise ResultsRefused(f"{path} holds no JSON object")
    return found


def _write(path: Path, value: Mapping[str, Any]) -> None:
    text = orjson.dumps(plain(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _refuse_infinite(value: Any, where: str) -> None:
    """orjson writes NaN as null, and nobody would know that there was one."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}")
    if isinstance(value, Mapping):
        for key, one in value.items():
            _refuse_infinite(one, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            _refuse_infinite(one, f"{where}[{number}]")
