"""Puts a report together and writes it: the template, the sections that fill it, the plots beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from ninelives_reports.background import write_again, write_checkers, write_environment, write_not_covered
from ninelives_reports.comparison import write_comparison
from ninelives_reports.faults import write_catalogue, write_faults
from ninelives_reports.kills import read_stories, summarize_takeovers, write_expectations, write_in_doubt, write_kills
from ninelives_reports.latency import Waits, draw_latency, read_waits
from ninelives_reports.load import Record, View, load_view, record
from ninelives_reports.summary import write_arms, write_duplicates, write_latencies, write_problems, write_verdict
from ninelives_reports.text import counted, join, setting, slug
from ninelives_reports.timeline import draw_timeline, read_timeline
from ninelives_rig.evidence.seal import SEAL_NAME

_OURS = re.compile(r"(\d+-.+-)?(latency|timeline-.+)\.png")
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Plots:
    """The plots of a bundle as PNG, by file name; ``timelines`` is a list of (arm, file name)."""

    files: Mapping[str, bytes]
    latency: str | None
    timelines: Sequence[tuple[str, str]]


def write_report(bundle: Path) -> Path:
    """Write ``report.md`` and ``plots/`` into the bundle; see ``ninelives_reports.render``."""
    view = load_view(_found(bundle))
    plots = _draw(view)
    _put_plots(bundle / "plots", plots.files)
    return _put(bundle / "report.md", _compose(view, plots, "plots").encode())


def write_published(bundle: Path, name: str, *, into: Path, others: Sequence[Path]) -> Path:
    """Write ``into/name.md`` and ``into/name/``; see ``ninelives_reports.publish``."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise ValueError(f"{name!r} cannot name a report; use letters, digits, dash and underscore, such as QR2")
    view = load_view(_found(bundle))
    plots = _draw(view)
    further, files = [], dict(plots.files)
    for place, other in enumerate(others, 1):
        one = load_view(_found(other))
        prefix = f"{place}-{slug(one.campaign)}-{slug(one.engine)}-"
        drawn = _draw(one, prefix, timelines=False)
        files |= drawn.files
        further.append((one, drawn))
    text = _compose(view, plots, name, further)
    _put_plots(into / name, files)
    return _put(into / f"{name}.md", text.encode())


def _found(bundle: Path) -> Path:
    """Return the bundle's path if a run wrote there; a report in any other directory would be litter."""
    if any((bundle / name).exists() for name in ("manifest.json", SEAL_NAME, "arms")):
        return bundle
    raise FileNotFoundError(f"{bundle} is no bundle of evidence; name the directory that the run wrote")


def _compose(view: View, plots: Plots, folder: str, further: Sequence[tuple[View, Plots]] = ()) -> str:
    stories = read_stories(view)
    takeovers = summarize_takeovers(stories)
    flows = counted(view.total("flows"), "flow")
    parts = {
        "title": f"{view.campaign}: {view.status}",
        "subtitle": f"Engine `{view.engine}`, seed {view.seed}, {counted(len(view.arms), 'arm')}, {flows}.",
        "verdict": join([write_verdict(view)]),
        "sections": join(
            [
                write_problems(view),
                write_arms(view),
                write_duplicates(view),
                write_expectations(view),
                write_latencies(view, takeovers),
                _show_latency(view, plots, folder),
                write_faults(view),
                write_catalogue(view),
                write_kills(view, stories),
                *_show_timelines(plots, folder),
                write_in_doubt(view),
                *(_write_further(one, drawn, folder) for one, drawn in further),
                write_comparison([view, *(one for one, _ in further)], takeovers),
                write_not_covered(view),
                write_checkers(view),
                write_environment(view),
                write_again(view),
            ]
        ),
    }
    return Template((_TEMPLATES / "run.md").read_text(encoding="utf-8")).substitute(parts)


def _write_further(view: View, plots: Plots, folder: str) -> list[str]:
    """Write another bundle as one section: its verdict, arms, arithmetic and latencies."""
    stories = read_stories(view)
    parts = {
        "title": f"Beside it: {view.campaign} with engine {view.engine}: {view.status}",
        "verdict": join([write_verdict(view)]),
        "sections": join(
            [
                write_arms(view, "###"),
                write_duplicates(view, "###"),
                write_faults(view, "###"),
                write_in_doubt(view, "###"),
                write_latencies(view, summarize_takeovers(stories), "###"),
                _show_latency(view, plots, folder),
            ]
        ),
        "seal": view.seal or "none",
        "seed": view.seed,
        "commit": setting(view.manifest.get("commit")),
    }
    text = Template((_TEMPLATES / "further.md").read_text(encoding="utf-8")).substitute(parts)
    return text.rstrip("\n").split("\n")


def _show_latency(view: View, plots: Plots, folder: str) -> list[str]:
    lines = [f"![Distribution of the time from a kill to the next effect and to the end]({folder}/{plots.latency})"]
    lines = (
        lines if plots.latency else ["No latency is drawn: no abandoned flow was seen to go on."] if view.arms else []
    )
    differing = [arm.name for arm in view.arms if _differs(read_waits(arm), record(arm.measure("resume_s")))]
    if differing:
        lines += [
            "",
            f"> The verdict's figures of {', '.join(differing)} are not those of the evidence; judge it again.",
        ]
    return lines


def _differs(waits: Waits | None, judged: Record) -> bool:
    """Say whether the verdict counts other samples than the evidence gives."""
    return waits is not None and judged.get("n") is not None and judged.get("n") != len(waits.resume_s)


def _show_timelines(plots: Plots, folder: str) -> list[list[str]]:
    if not plots.timelines:
        return []
    intro = "A lane is a place for a process and its successors: its bar is whoever lives there, a cross ends a life."
    pictures = [
        f"![Timeline of {arm}: process lives, kills and takeovers]({folder}/{name})" for arm, name in plots.timelines
    ]
    return [["## Kills and takeovers in time", "", intro], *([picture] for picture in pictures)]


def _draw(view: View, prefix: str = "", *, timelines: bool = True) -> Plots:
    """Draw what the evidence holds; what it does not hold is not drawn, and the text says so."""
    files: dict[str, bytes] = {}
    waits = [one for arm in view.arms if (one := read_waits(arm)) is not None]
    latency = f"{prefix}latency.png" if waits else None
    if latency:
        files[latency] = draw_latency(waits)
    named = []
    for arm in view.arms if timelines else ():
        timeline = read_timeline(arm)
        if timeline is not None and timeline.lanes:
            name = f"{prefix}timeline-{slug(arm.name)}.png"
            files[name] = draw_timeline(timeline)
            named.append((arm.name, name))
    return Plots(files, latency, named)


def _put_plots(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the plots and remove those of an earlier report that this one does not have."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in sorted(folder.glob("*.png")):
        if stale.name not in files and _OURS.fullmatch(stale.name):
            stale.unlink()
    for name, content in files.items():
        _put(folder / name, content)


def _put(path: Path, content: bytes) -> Path:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(content)
    draft.replace(path)
    return path
