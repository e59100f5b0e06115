"""Writes the reports of a benchmark run from its result folder and nothing else."""

from __future__ import annotations

from pathlib import Path

from ninelives_reports.bench_b7 import NAME as B7
from ninelives_reports.bench_b7 import draw_b7, write_b7
from ninelives_reports.bench_b8 import NAME as B8
from ninelives_reports.bench_b8 import draw_b8, write_b8
from ninelives_reports.bench_folder import SCHEMA, BenchFolder, load_folder


def write_bench_report(folder: Path, out: Path) -> None:
    """Write `out/B7.md` and `out/B8.md` with their plots in `out/B7/` and `out/B8/`.

    The same folder gives the same bytes. Raises `FolderUnreadable` where there is no summary.
    """
    _write(load_folder(folder), out)


def publish_bench_report(folder: Path, into: Path) -> None:
    """Write the reports to where they are committed; raises ValueError for a run that proves nothing.

    That is a quick run, one of another schema, and one of which nobody can tell what code it measured.
    """
    found = load_folder(folder)
    reasons = []
    if found.summary.get("schema") != SCHEMA:
        reasons.append(f"its schema is {found.summary.get('schema')!r}, not {SCHEMA}")
    if found.summary.get("quick") is not False:
        reasons.append("it is a quick run")
    if found.summary.get("dirty") is not False:
        reasons.append("the checkout had uncommitted changes")
    if not found.part("verdicts"):
        reasons.append("it has no verdicts, so it did not come to its end")
    if reasons:
        raise ValueError(f"the run in {folder} cannot be published: {'; '.join(reasons)}")
    _write(found, into)


def _write(folder: BenchFolder, out: Path) -> None:
    for name, draw, write in ((B7, draw_b7, write_b7), (B8, draw_b8, write_b8)):
        plots = draw(folder)
        _put_plots(out / name, plots)
        _put(out / f"{name}.md", write(folder, plots).encode())


def _put_plots(folder: Path, files: dict[str, bytes]) -> None:
    """Write the plots and remove those that an earlier report had and this one has not."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in sorted(folder.glob("*.png")):
        if stale.name not in files:
            stale.unlink()
    for name, content in files.items():
        _put(folder / name, content)


def _put(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(content)
    draft.replace(path)
