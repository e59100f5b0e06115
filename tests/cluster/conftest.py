"""Fixtures of the tests that start and kill servers of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ninelives_rig.rundir import RunDirectory


@pytest.fixture
def base() -> Iterator[Path]:
    """A place for run directories that every user can enter, which pytest's own tmp_path is not."""
    path = Path(tempfile.mkdtemp(prefix="nl-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def run(base: Path) -> Iterator[RunDirectory]:
    """A run directory of the test's own."""
    with RunDirectory.create(base=base) as run:
        yield run
