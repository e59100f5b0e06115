"""The command line: run a campaign, judge or report a bundle again, list what there is, sabotage."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import orjson
import typer

from ninelives_rig.campaign import Campaign
from ninelives_rig.cluster.errors import ClusterError
from ninelives_rig.engines import engine_names
from ninelives_rig.evidence.writer import OutRefused
from ninelives_rig.judging import Outcome, assess
from ninelives_rig.nodes import NodesBroken
from ninelives_rig.progress import Display
from ninelives_rig.refusal import Refused
from ninelives_rig.verdict import Status

_EVIDENCE = Path("reports/evidence")
_PUBLISHED = Path("reports/published")
_FORESEEN = (ClusterError, OutRefused, NodesBroken, Refused)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Drive a durable-execution engine through kills, keep the evidence, and judge it.\n\n"
    "Exit code: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 broken rig.",
)


def campaigns() -> dict[str, Campaign]:
    """Return every campaign that is declared, by name: one per module of the scenarios' package."""
    package = importlib.import_module("ninelives_scenarios")
    found = {}
    for module in pkgutil.iter_modules(package.__path__, "ninelives_scenarios."):
        campaign = getattr(importlib.import_module(module.name), "CAMPAIGN", None)
        if isinstance(campaign, Campaign):
            found[campaign.name] = campaign
    return found


@app.command("list")
def list_command(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List campaigns, their arms, and the engines that they can be run against."""
    known = campaigns()
    if json:
        listed = {
            name: {"summary": one.summary, "arms": {arm.name: [arm.flows, arm.kills] for arm in one.arms}}
            for name, one in known.items()
        }
        _print_json({"campaigns": listed, "engines": engine_names()})
        return
    for name, one in sorted(known.items()):
        typer.echo(f"{name}: {one.summary}")
        for arm in one.arms:
            typer.echo(f"    {arm.name}: {arm.flows} flows, {arm.kills} kills")
    typer.echo(f"engines: {', '.join(engine_names())}")


@app.command("run")
def run_command(
    campaign: Annotated[str, typer.Argument(help="A campaign's name; see `ninelives-rig list`.")],
    flows: Annotated[int | None, typer.Option(min=1, help="Flows per arm, instead of the campaign's.")] = None,
    kills: Annotated[int | None, typer.Option(min=0, help="Kills per arm, instead of the campaign's.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same ids and the same kill schedule.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Where the bundle goes: a new or empty directory.")] = None,
    engine: Annotated[str, typer.Option(help="reference or naive.")] = "reference",
    postgres: Annotated[str | None, typer.Option(help="16, 18 or docker (default: the newest embedded).")] = None,
    dsn: Annotated[str | None, typer.Option(help="Use this server instead of starting one.")] = None,
    schema: Annotated[str, typer.Option(help="First part of the schemas' names.")] = "ninelives_rig",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the schemas and the server's data in place.")] = False,
    allow_weak: Annotated[
        bool, typer.Option("--allow-weak", help="Accept a server that may lose commits; the report says so.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON on standard output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the verdict.")] = False,
) -> None:
    """Run a campaign: start nodes, kill them by the schedule, collect the evidence, judge it."""

    def work() -> Outcome:
        from ninelives_rig.run import Request, run

        known = campaigns()
        if campaign not in known:
            raise Refused(f"no campaign {campaign!r}; choose one of {', '.join(sorted(known))}")
        request = Request(
            campaign=known[campaign].scaled(flows, kills),
            engine=engine,
            seed=seed,
            out=target,
            dsn=dsn,
            postgres=postgres,
            schema=schema,
            keep=keep,
            allow_weak=allow_weak,
        )
        return run(request, Display(plain=json, quiet=quiet))

    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = out or _EVIDENCE / f"{campaign}-{seed}-{moment}"
    _conclude(work, target, json)


@app.command("check")
def check_command(
    bundle: Annotated[Path, typer.Argument(help="The directory that a run wrote.")],
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON on standard output.")] = False,
) -> None:
    """Judge a bundle again, from its files alone."""
    _conclude(lambda: assess(bundle), bundle, json)


@app.command("report")
def report_command(
    bundle: Annotated[Path, typer.Argument(help="The directory that a run wrote.")],
    publish: Annotated[
        str | None, typer.Option(metavar="NAME", help="Also write reports/published/NAME.md and its plots.")
    ] = None,
    beside: Annotated[
        list[Path] | None, typer.Option("--with", help="With --publish: a further bundle, as a section; repeatable.")
    ] = None,
) -> None:
    """Write a bundle's report again, from its files alone."""
    try:
        if beside and publish is None:
            raise Refused("--with adds sections to a published report; give --publish NAME too")
        reports = importlib.import_module("ninelives_reports")
        written = [reports.render(bundle)]
        if publish is not None:
            written.append(reports.publish(bundle, publish, into=_PUBLISHED, others=beside or ()))
    except (FileNotFoundError, ValueError) as error:
        _fail(Refused(str(error)))
    except Exception as error:
        _fail(error)
    for path in written:
        typer.echo(f"report: {path}")


@app.command("sabotage", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def sabotage_command(context: typer.Context) -> None:
    """Break the runtime or the rig on purpose, one mutant at a time, and show which checker catches it."""
    try:
        sabotage = importlib.import_module("ninelives_rig.sabotage")
    except ModuleNotFoundError:
        _fail(Refused("sabotage is not built yet"))
    raise typer.Exit(sabotage.main(context.args))


def _conclude(work: Callable[[], Outcome], bundle: Path, json: bool) -> None:
    """Do the work, print its outcome and leave with its exit code."""
    try:
        outcome = work()
    except KeyboardInterrupt:
        typer.echo("interrupted before there was any evidence; every process has been ended", err=True)
        raise typer.Exit(Status.INCONCLUSIVE.exit_code) from None
    except Exception as error:
        _fail(error)
    if json:
        _print_json(outcome.content)
    else:
        typer.echo("\n".join(outcome.lines))
        typer.echo(f"evidence: {bundle}")
        if (bundle / "report.md").exists():
            typer.echo(f"report: {bundle / 'report.md'}")
    raise typer.Exit(outcome.status.exit_code)


def _fail(error: Exception) -> NoReturn:
    """Say what went wrong and leave with exit code 3; an error that nobody foresaw shows where it was raised."""
    if not isinstance(error, _FORESEEN):
        traceback.print_exception(error)
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(Status.BROKEN.exit_code) from None


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
