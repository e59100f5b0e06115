"""The report of B7: what a durable step commit costs, alone and in whole flows."""

from __future__ import annotations

from ninelives_reports.bench_beside import write_beside_commits, write_not_covered
from ninelives_reports.bench_commits import write_arms, write_references, write_sustained
from ninelives_reports.bench_curves import draw_flows
from ninelives_reports.bench_engine import write_engine
from ninelives_reports.bench_folder import BenchFolder
from ninelives_reports.bench_rates import draw_rates, draw_throughput
from ninelives_reports.bench_verdict import (
    verdict_of,
    write_again,
    write_environment,
    write_reach,
    write_subtitle,
    write_verdict,
)
from ninelives_reports.bench_windows import draw_windows
from ninelives_reports.text import join

NAME = "B7"
_SHOWN = {
    "rates.png": "Response p50 and p99 over the offered rate",
    "throughput.png": "Throughput beside the references",
    "flows.png": "Latency of three-step flows by percentile",
    "sustained.png": "Response window by window in the long run",
}


def draw_b7(folder: BenchFolder) -> dict[str, bytes]:
    """Return the plots by file name; what has no samples is not drawn."""
    drawn = {
        "rates.png": draw_rates(folder),
        "throughput.png": draw_throughput(folder),
        "flows.png": draw_flows(folder),
        "sustained.png": draw_windows(folder),
    }
    return {name: content for name, content in drawn.items() if content is not None}


def write_b7(folder: BenchFolder, plots: dict[str, bytes]) -> str:
    """Return the text of the report; its pictures lie in `B7/` beside it."""

    def picture(name: str) -> str | None:
        return f"![{_SHOWN[name]}]({NAME}/{name})" if name in plots else None

    title = f"# B7, a durable step commit: {verdict_of(folder, 'b7')}"
    sections = [
        [title],
        [write_subtitle(folder)],
        write_verdict(folder, "b7", "engine", "overall"),
        write_reach(folder),
        write_arms(folder, picture("rates.png")),
        write_references(folder, picture("throughput.png")),
        write_engine(folder, picture("flows.png")),
        write_sustained(folder, picture("sustained.png")),
        write_beside_commits(folder),
        write_not_covered(folder),
        write_environment(folder),
        write_again(folder),
    ]
    return join(sections) + "\n"
