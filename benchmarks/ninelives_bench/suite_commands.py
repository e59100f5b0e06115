"""The command line: `python -m ninelives_bench run`, `judge`, `compare` and `publish`."""

from __future__ import annotations

import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from ninelives_bench.reach import reach_table
from ninelives_bench.results import ResultsRefused, read_results
from ninelives_bench.suite_run import Request, run
from ninelives_bench.verdicts import SECTIONS, judge, status_of
from ninelives_rig.cluster.errors import ClusterError
from ninelives_rig.verdict import Status

_EVIDENCE: Final = Path(__file__).parents[2] / "reports" / "evidence"
_PUBLISHED: Final = Path(__file__).parents[2] / "reports" / "published"
_TABLE_WIDTH: Final = 110

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure what a durable step costs. Exit codes: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 broken.",
)


@app.command("run")
def run_command(
    out: Annotated[Path | None, typer.Option(help="The result folder; an older run's results in it go.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The same path in under two minutes.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same arrivals.")] = 1,
    postgres: Annotated[str | None, typer.Option(help="16 or 18 (default: the newest embedded).")] = None,
    only: Annotated[str, typer.Option(help="Sections, by comma; the run is then BROKEN, for want of the rest.")] = "",
) -> None:
    """Measure, judge and write a result folder."""
    sections = [name.strip() for name in only.split(",") if name.strip()]
    unknown = sorted(set(sections) - set(SECTIONS))
    if unknown:
        _fail(ResultsRefused(f"no section {', '.join(unknown)}; choose of {', '.join(SECTIONS)}"))
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = out or _EVIDENCE / f"bench-{seed}-{moment}"
    try:
        summary = run(Request(target, quick, seed, postgres, sections))
    except KeyboardInterrupt:
        typer.echo("interrupted: no summary was written, and every process has been ended", err=True)
        raise typer.Exit(Status.INCONCLUSIVE.exit_code) from None
    except Exception as error:
        _fail(error)
    _show(summary, summary["verdicts"])
    typer.echo(f"results: {target}")
    raise typer.Exit(status_of(summary["verdicts"]).exit_code)


@app.command("judge")
def judge_command(folder: Annotated[Path, typer.Argument(help="A result folder.")]) -> None:
    """Judge a result folder again, from its files alone."""
    try:
        summary, manifest = read_results(folder)
    except ResultsRefused as error:
        _fail(error)
    verdicts = judge(summary, manifest)
    _show(summary, verdicts)
    raise typer.Exit(status_of(verdicts).exit_code)


@app.command("compare")
def compare_command(
    a: Annotated[Path, typer.Argument(help="The result folder that is compared with.")],
    b: Annotated[Path, typer.Argument(help="The result folder that is compared.")],
    force: Annotated[bool, typer.Option("--force", help="Show figures that are not comparable, marked so.")] = False,
) -> None:
    """Compare two result folders; refused when they are not comparable."""
    try:
        # Here, so that a run does not import what only a comparison needs.
        from ninelives_bench.compare import compare

        code = compare(a, b, force)
    except Exception as error:
        _fail(error)
    raise typer.Exit(code)


@app.command("publish")
def publish_command(
    folder: Annotated[Path, typer.Argument(help="A result folder of a whole run of committed code.")],
    into: Annotated[Path, typer.Option(help="Where the reports go.")] = _PUBLISHED,
) -> None:
    """Write B7.md and B8.md with their plots to where they are committed; refused for a run that proves nothing."""
    try:
        # Here, so that a run does not import what only a report needs.
        from ninelives_reports.bench_report import publish_bench_report

        publish_bench_report(folder, into)
    except ValueError as error:
        _fail(ResultsRefused(str(error)))
    except Exception as error:
        _fail(error)
    typer.echo(f"published: {into / 'B7.md'}, {into / 'B8.md'}")


def _show(summary: dict[str, Any], verdicts: dict[str, Any]) -> None:
    # Into a file or a pipe the table is as wide as its text, not as the terminal that is assumed there.
    console = Console(width=None if sys.stdout.isatty() else _TABLE_WIDTH)
    console.print(reach_table(summary.get("reach") or [], quick=summary.get("quick") is not False))
    for one in summary.get("missing") or []:
        typer.echo(f"{one['name']} was not measured: {one['why']}")
    for name, one in verdicts.items():
        typer.echo(f"{name}: {one['verdict']}")
        for reason in one["reasons"]:
            typer.echo(f"  {reason}")


def _fail(error: Exception) -> NoReturn:
    """Say what went wrong and leave with exit code 3; an error that nobody foresaw shows where it was raised."""
    if not isinstance(error, ResultsRefused | ClusterError):
        traceback.print_exception(error)
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(Status.BROKEN.exit_code) from None
