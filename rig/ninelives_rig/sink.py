"""An outside system with keys: it applies a key once, and can be told to refuse a key for ever.

Each key is one file, made whole beforehand and published by link(2). The kernel lets exactly one link to a
name succeed, so apply and void are atomic between processes and survive SIGKILL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import quote

import orjson

Record = dict[str, object]


class Voided(Exception):
    """The sink refuses this key: it was voided before it was applied."""


@dataclass(frozen=True)
class Applied:
    """The record that stands under a key, and whether this very call put it there."""

    record: Record
    first: bool


class Sink:
    """A directory of applied and voided keys, shared by all processes of an arm."""

    def __init__(self, directory: Path) -> None:
        self._keys = directory / "keys"
        self._drafts = directory / "drafts"
        self._keys.mkdir(parents=True, exist_ok=True)
        self._drafts.mkdir(parents=True, exist_ok=True)
        self._numbers = count()

    def apply(self, key: str, record: Record) -> Applied:
        """Apply ``record`` under ``key``, or return what was applied before; raises ``Voided``."""
        if self._publish(key, {"voided": False, "record": record}):
            return Applied(record, first=True)
        standing = self.read(key)
        if standing is None:
            raise Voided(f"key {key!r} was voided; use a new key")
        return Applied(standing, first=False)

    def void(self, key: str) -> Record | None:
        """Refuse ``key`` from now on and return None; or return the record that was applied before."""
        self._publish(key, {"voided": True})
        return self.read(key)

    def read(self, key: str) -> Record | None:
        """Return the record applied under ``key``; None if it is voided or unknown."""
        try:
            content = orjson.loads(self._path(key).read_bytes())
        except FileNotFoundError:
            return None
        return None if content["voided"] else content["record"]

    def records(self) -> Iterator[Record]:
        """Yield every applied record, in the order of the keys' names."""
        for path in sorted(self._keys.iterdir()):
            content = orjson.loads(path.read_bytes())
            if not content["voided"]:
                yield content["record"]

    def _publish(self, key: str, content: Record) -> bool:
        """Put the content under the key's name unless something stands there; says whether it was put."""
        draft = self._drafts / f"{os.getpid()}-{next(self._numbers)}"
        draft.write_bytes(orjson.dumps(content))
        try:
            self._path(key).hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _path(self, key: str) -> Path:
        name = f"k-{quote(key, safe='')}"
        if len(name) > 240:
            raise ValueError(f"key {key[:60]!r}... is too long for a file name; use at most 240 characters")
        return self._keys / name
