"""One run from the beginning to the end."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ninelives_bench.ground import Ground, open_ground
from ninelives_bench.manifest import describe, identify
from ninelives_bench.reach import reach
from ninelives_bench.results import REPORT, ResultFolder, plain
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import FULL, QUICK, Plan
from ninelives_bench.suite_interruption import Interruption
from ninelives_bench.suite_progress import say
from ninelives_bench.verdicts import SECTIONS, judge

Measure = Callable[[Ground, Plan, SampleStore], dict[str, Any]]

MODULES: Final = {"b7": "committer", "b8": "rehydrate"}
"""Where a section of the summary is measured, when the module has another name."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. ``only``: the sections that are measured; the others are missing, and so no PASS."""

    out: Path
    quick: bool = False
    seed: int = 1
    postgres: str | None = None
    only: Collection[str] = ()


def run(request: Request) -> dict[str, Any]:
    """Measure, judge, write and report; returns the summary.

    Raises ``ResultsRefused``, or an error of the rig's cluster when there is no server. Nothing is left running, and
    no summary is left behind, when this is interrupted.
    """
    plan = replace(QUICK if request.quick else FULL, seed=request.seed)
    folder = ResultFolder.begin(request.out)
    with Interruption() as interruption, open_ground(postgres=request.postgres, options=plan.server_options) as ground:
        identity = identify(ground, plan)
        manifest = describe(identity, plan)
        folder.write_manifest(manifest)
        say(f"run {identity['run_id']}: PostgreSQL {identity['settings']['server_version']}, seed {plan.seed}")
        measured = measure_all(ground, plan, folder.samples, interruption, request.only)
        interruption.check()
    summary = conclude({**identity, **measured}, manifest)
    folder.write_manifest({**manifest, "samples": folder.samples.saved})
    folder.write_summary(summary)
    write_report(request.out)
    return summary


def measure_all(
    ground: Ground, plan: Plan, samples: SampleStore, interruption: Interruption, only: Collection[str] = ()
) -> dict[str, Any]:
    """Return every section that could be measured; the others are null, and `missing` says why."""
    found: dict[str, Any] = {}
    missing = []
    for section in SECTIONS:
        try:
            if only and section not in only:
                raise RuntimeError("it was not asked for")
            say(f"{section} ...")
            found[section] = _measurement(section)(ground, plan, samples)
        except Exception as error:
            interruption.check()
            found[section] = None
            missing.append({"name": section, "why": f"{type(error).__name__}: {error}"})
            if not only or section in only:
                traceback.print_exception(error)
                say(f"{section} was not measured: {error}")
    return {**found, "missing": missing}


def _measurement(section: str) -> Measure:
    module = importlib.import_module(f"ninelives_bench.{MODULES.get(section, section)}")
    measure: Measure = module.measure
    return measure


def conclude(measured: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Add the ratios to pgbench, the verdicts and what was reached."""
    pgbench = ((measured.get("reference") or {}).get("pgbench") or {}).get("per_s")
    for section, figure in (("b7", "saturation_per_s"), ("engine", "steps_per_s")):
        part = measured.get(section)
        if part is not None:
            rate = part.get(figure)
            part["pgbench_ratio"] = rate / pgbench if rate is not None and pgbench else None
    if measured.get("b7") is not None:
        measured["b7"]["pgbench_per_s"] = pgbench
    # Judged as it is written, so that judging the folder again gives the same.
    summary: dict[str, Any] = plain(measured)
    summary["verdicts"] = judge(summary, manifest)
    summary["reach"] = reach(summary)
    return summary


def write_report(out: Path) -> None:
    """Write `report/`; a report that fails takes no figure with it."""
    try:
        # Here, because it imports a plotting library, which a node that is spawned has no use for.
        reports = importlib.import_module("ninelives_reports.bench_report")
        reports.write_bench_report(out, out / REPORT)
    except Exception as error:
        traceback.print_exception(error)
        say(f"no report was written: {error}")
