"""The seal of a bundle: one digest per evidence file, taken when the run has ended."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import orjson

SEAL_NAME = "digests.json"
_OUTSIDE = "logs"


@dataclass(frozen=True)
class SealReport:
    """How a bundle compares with its seal; paths are relative to the bundle."""

    sealed: bool
    readable: bool
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def intact(self) -> bool:
        """Whether there is a seal and every evidence file is as it was sealed."""
        return self.sealed and self.readable and not (self.changed or self.missing or self.added)


def _evidence_files(root: Path) -> list[Path]:
    """List what the seal covers: the manifest and all arms, but not their logs.

    Logs are for people, no checker reads them, and a server may still append to its own.
    """
    files = [root / "manifest.json"] if (root / "manifest.json").is_file() else []
    for path in sorted((root / "arms").rglob("*")):
        if path.is_file() and _OUTSIDE not in path.relative_to(root).parts[2:-1]:
            files.append(path)
    return files


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(root: Path) -> Path:
    """Write ``digests.json`` over the evidence under ``root`` and return its path. Sealing again replaces
    the seal.
    """
    digests = {path.relative_to(root).as_posix(): _digest(path) for path in _evidence_files(root)}
    target = root / SEAL_NAME
    target.write_bytes(orjson.dumps(digests, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    return target


def verify(root: Path) -> SealReport:
    """Compare the evidence under ``root`` with its seal. Never raises: an unreadable seal is part of the
    report.
    """
    try:
        sealed = orjson.loads((root / SEAL_NAME).read_bytes())
    except FileNotFoundError:
        return SealReport(sealed=False, readable=False)
    except (OSError, ValueError):
        return SealReport(sealed=True, readable=False)
    if not isinstance(sealed, dict):
        return SealReport(sealed=True, readable=False)
    present = {path.relative_to(root).as_posix(): path for path in _evidence_files(root)}
    return SealReport(
        sealed=True,
        readable=True,
        changed=tuple(name for name, path in present.items() if name in sealed and _digest(path) != sealed[name]),
        missing=tuple(sorted(name for name in sealed if name not in present)),
        added=tuple(name for name in present if name not in sealed),
    )
