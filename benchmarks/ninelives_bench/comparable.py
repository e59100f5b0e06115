"""Whether two runs can be compared at all: every reason against it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ninelives_bench.verdicts import SCHEMA
from ninelives_reports.bench_folder import BenchFolder
from ninelives_rig.verdict import Status

DECISIVE: Final = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "wal_buffers", "max_wal_size",
    "checkpoint_timeout", "commit_delay", "autovacuum", "io_method", "data_checksums",
)  # fmt: skip
"""The server's settings that bear on what a commit or a claim costs."""
ARMS: Final = {"b7": "name", "engine": "name", "death": "name", "claims": "parked", "b8": "depth, cache, load_per_s"}
"""What tells the arms of a part apart."""
_MACHINE = {"cpus_usable": "usable processors", "cpu_model": "processor"}
_PARTS = ("reference", "takeover", "renewal", "sustained")
_SHOWN_MAX = 6


def reasons_against(a: BenchFolder, b: BenchFolder) -> list[str]:
    """Return why figures of these runs must not be put side by side; empty when they may."""
    reasons = [*_of_one("A", a), *_of_one("B", b)]
    if a.root.resolve() == b.root.resolve() or a.summary.get("run_id") == b.summary.get("run_id"):
        reasons.append("A and B are the same run")
    if a.summary.get("quick") != b.summary.get("quick"):
        reasons.append(f"A is a {_kind(a)} run, B a {_kind(b)} run")
    return [*reasons, *_of_servers(a, b), *_of_machines(a, b), *_of_plans(a, b), *_of_arms(a, b)]


def _kind(folder: BenchFolder) -> str:
    return "quick" if folder.summary.get("quick") else "full"


def _of_one(name: str, folder: BenchFolder) -> Iterator[str]:
    summary = folder.summary
    if summary.get("schema") != SCHEMA:
        yield f"{name} is of schema {summary.get('schema')!r}, not {SCHEMA}"
    if summary.get("dirty") is not False:
        yield f"{name} was measured with uncommitted changes: its commit does not tell what it is of"
    if not folder.manifest:
        yield f"{name} has no manifest.json that can be read, so that its machine is unknown"
    elif folder.manifest.get("run_id") != summary.get("run_id"):
        yield f"the summary and the manifest of {name} are of different runs"
    overall = folder.part("verdicts", "overall").get("verdict")
    if overall is None or summary.get("unfinished"):
        yield f"{name} did not come to its end: it has no verdict"
    elif overall == Status.BROKEN.value:
        yield f"{name} was judged BROKEN: its figures cannot be relied on"


def _of_servers(a: BenchFolder, b: BenchFolder) -> Iterator[str]:
    majors = [str(side.settings.get("server_version", "unknown")).split(".")[0] for side in (a, b)]
    if majors[0] != majors[1] or majors[0] == "unknown":
        yield f"PostgreSQL is {majors[0]} in A, {majors[1]} in B"
    for name in DECISIVE:
        ours, theirs = a.settings.get(name), b.settings.get(name)
        if ours != theirs:
            yield f"{name} is {_said(ours)} in A, {_said(theirs)} in B"


def _of_machines(a: BenchFolder, b: BenchFolder) -> Iterator[str]:
    for name, label in _MACHINE.items():
        ours, theirs = a.environment.get(name), b.environment.get(name)
        if ours != theirs or ours is None:
            yield f"{label}: {_said(ours)} in A, {_said(theirs)} in B"


def _said(value: object) -> str:
    return "unknown" if value is None else str(value)


def _of_plans(a: BenchFolder, b: BenchFolder) -> Iterator[str]:
    differing = sorted(_differences(a.manifest.get("plan"), b.manifest.get("plan"), "")) if a.manifest else []
    # Other arrivals of the same rate are as comparable as the same ones.
    differing = [name for name in differing if name not in ("seed", "quick")]
    if differing:
        more = f" and {len(differing) - _SHOWN_MAX} more" if len(differing) > _SHOWN_MAX else ""
        yield f"other plans were carried out: {', '.join(differing[:_SHOWN_MAX])}{more} differ"


def _differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in {*ours, *theirs}:
            yield from _differences(ours.get(name), theirs.get(name), f"{path}.{name}" if path else str(name))
    elif ours != theirs:
        yield path or "plan"


def _of_arms(a: BenchFolder, b: BenchFolder) -> Iterator[str]:
    for part in _PARTS:
        if bool(a.part(part)) != bool(b.part(part)):
            yield f"{part} was measured in {'A' if a.part(part) else 'B'} only"
    for part in ARMS:
        ours, theirs = set(arms_of(a, part)), set(arms_of(b, part))
        for side, only in (("A", ours - theirs), ("B", theirs - ours)):
            if only:
                yield f"{part}: measured in {side} only: {', '.join(sorted(only))}"
        if not ours and not theirs:
            yield f"{part} was measured in neither"


def arms_of(folder: BenchFolder, part: str) -> dict[str, Mapping[str, Any]]:
    """Return the arms of a part by a name that is the same in every run."""
    keys = ARMS[part].split(", ")
    return {"_".join(str(arm.get(key)) for key in keys): arm for arm in folder.rows(part, "arms")}
