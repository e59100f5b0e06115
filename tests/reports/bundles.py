"""Bundles for the tests of reports: small stories, judged, and what a report of them looks like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.checkers.make_bundle import Story, write_bundle
from tests.checkers.stories import after_commit, at_most_once, idempotent

from ninelives_rig.judge import judge

PICTURE = re.compile(r"!\[([^\]]+)\]\(([^)]+)\)")
BANNED_WORDS = re.compile(r"\b(?:nan|NaN|None|inf|NaT|<NA>)\b")

ENVIRONMENT = {
    "python": "3.11.7",
    "system": "Linux",
    "cpus": 4,
    "cpus_usable": 2,
    "cpu_model": "Some CPU",
    "memory_kb": "8388608",
    "load_average_1m": 0.5,
    "packages": {"ninelives": "0.1.0", "psycopg": "3.2"},
}
SETTINGS = {"fsync": "on", "server_version": "18.4", "durability": {"weak": []}, "ttl_s": 30.0}


def judged(root: Path, *stories: Story, **manifest: Any) -> Path:
    """Write a bundle of these stories, judge it, and return its path."""
    content: Mapping[str, Any] = {"environment": ENVIRONMENT, "settings": SETTINGS, "engine": "reference", **manifest}
    write_bundle(root, *stories, manifest=content)
    judge(root)
    return root


def qr2(root: Path) -> Path:
    """A small campaign of the two arms, with capacity settings and phases as the rig writes them."""
    stories = (idempotent(), after_commit())
    for story in stories:
        story.spec |= {"flows_max": 64, "takeovers_max": 2048}
        story.spec["steps"] = [{**step, "service_s": 0.05} for step in story.spec["steps"]]
        story.spec["boundaries"] = ["body.returned", "journal.committed", "lease.lost"]
        first, last = story.history[0]["t"], story.history[-1]["t"]
        for name, t in (("start", first), ("disturb", first + 5_000_000), ("stop", last)):
            story.history.append({"t": t, "process": "coordinator", "pid": 1, "event": "phase", "phase": name})
    return judged(root, *stories, campaign="qr2")


def isolated(root: Path) -> Path:
    """A small campaign with an arm in which effects came into doubt."""
    return judged(root, at_most_once(), campaign="isolated")


def sections(report: str) -> dict[str, str]:
    """Return the text of each section by its heading."""
    parts = re.split(r"^## (.+)$", report, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def row(text: str, *first: str) -> list[str]:
    """Return the cells of the table's row that begins with these cells."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and tuple(cells[: len(first)]) == first:
            return cells
    raise AssertionError(f"no row begins with {first} in:\n{text}")
