"""Raw samples: one parquet file for each measurement, what its percentiles were computed from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no stubs

Column = npt.NDArray[Any]


class SampleStore:
    """The folder `samples/` of a result folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.saved: dict[str, int] = {}
        """How many rows each file has, by name."""

    def save(self, name: str, columns: Mapping[str, Column]) -> None:
        """Write `samples/<name>.parquet`, the columns all of one length.

        `name` becomes a file's name: letters, digits, dashes and underscores. Raises ValueError for anything else,
        for columns of different lengths, and for a name that was saved before.
        """
        if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
            raise ValueError(f"{name!r} is no name for a file of samples; use letters, digits, - and _")
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"the columns of {name} have different lengths: {sorted(lengths)}")
        if name in self.saved:
            raise ValueError(f"samples named {name} were saved before; each measurement has a name of its own")
        self.folder.mkdir(parents=True, exist_ok=True)
        table = pa.table({key: pa.array(np.asarray(column)) for key, column in columns.items()})
        pq.write_table(table, self.folder / f"{name}.parquet", compression="zstd")
        self.saved[name] = lengths.pop()
