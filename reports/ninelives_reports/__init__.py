"""Reports: markdown and plots from a bundle of evidence and nothing else. The same bundle gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["publish", "render"]


def render(bundle: Path) -> Path:
    """Write ``report.md`` and ``plots/*.png`` into the bundle and return the report's path.

    Takes any bundle, whatever its verdict; one that was never judged is judged in memory. Raises
    ``FileNotFoundError`` where no run wrote anything, ``OSError`` when the report cannot be written.
    """
    from ninelives_reports.write import write_report  # pandas and matplotlib: two seconds that only reporting waits for

    return write_report(bundle)


def publish(bundle: Path, name: str, *, into: Path, others: Sequence[Path] = ()) -> Path:
    """Write the report as ``into/name.md`` with its plots in ``into/name/`` and return its path.

    ``others`` are bundles that become further sections: the same engine's ``isolated`` campaign, the negative control.
    Raises ``ValueError`` for a name that is no plain word, and ``OSError`` when nothing can be written.
    """
    from ninelives_reports.write import write_published

    return write_published(bundle, name, into=into, others=others)
