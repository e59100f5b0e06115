"""The report of B8: what it costs to take over an instance, a node, and to look for work."""

from __future__ import annotations

from ninelives_reports.bench_beside import write_beside_rehydration, write_not_covered
from ninelives_reports.bench_depths import draw_claims, draw_depths
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.bench_rehydration import write_claims, write_rehydration, write_takeover
from ninelives_reports.bench_verdict import (
    verdict_of,
    write_again,
    write_environment,
    write_reach,
    write_subtitle,
    write_verdict,
)
from ninelives_reports.text import join

NAME = "B8"
_SHOWN = {"depth.png": "Rehydration p50 and p99 over depth", "claims.png": "Cost of a claim over parked instances"}


def draw_b8(folder: BenchFolder) -> dict[str, bytes]:
    """Return the plots by file name; what has no samples is not drawn."""
    drawn = {"depth.png": draw_depths(folder), "claims.png": draw_claims(folder)}
    return {name: content for name, content in drawn.items() if content is not None}


def write_b8(folder: BenchFolder, plots: dict[str, bytes]) -> str:
    """Return the text of the report; its pictures lie in `B8/` beside it."""

    def picture(name: str) -> str | None:
        return f"![{_SHOWN[name]}]({NAME}/{name})" if name in plots else None

    title = f"# B8, rehydration: {verdict_of(folder, 'b8')}"
    sections = [
        [title],
        [write_subtitle(folder)],
        write_verdict(folder, "b8", "overall"),
        write_rehydration(folder, picture("depth.png")),
        write_takeover(folder),
        write_claims(folder, picture("claims.png")),
        write_reach(folder),
        write_beside_rehydration(folder),
        write_not_covered(folder),
        write_environment(folder),
        write_again(folder),
    ]
    return join(sections) + "\n"
