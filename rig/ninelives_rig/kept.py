"""What a run with --keep leaves in place, how to use it, and how to remove it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ninelives_rig.cluster.ladder import OpenServer


@dataclass
class Kept:
    """Filled in as a run comes to have something to keep; told when its server and its processes have ended."""

    directory: Path | None = None
    server: OpenServer | None = None
    schemas: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Tell it for people; nothing when nothing was kept."""
        schemas = ", ".join('"{}"'.format(name.replace('"', '""')) for name in self.schemas)
        if self.directory is not None and self.directory.exists():
            yield from self._directory_lines(self.directory, schemas)
        elif self.server is not None:
            # Without the DSN: it may hold a password.
            yield f"kept: schemas {schemas} of the given server"
            yield f"  remove: drop schema if exists {schemas} cascade"

    def _directory_lines(self, directory: Path, schemas: str) -> Iterator[str]:
        if self.server is None or self.server.server is None:
            yield f"kept: {directory}; its server never came up, and pg/server.log in it may say why"
        else:
            yield f"kept: {directory}; its server is stopped"
            yield f"  start: {shlex.join(self.server.server.start_command())}"
            yield f"  connect: psql {shlex.quote(self.server.dsn)}"
            yield f"  schemas: {schemas}"
        yield f"  remove: rm -r {shlex.quote(str(directory))}"
