"""The command line: run a campaign, judge or report a bundle again, list what there is, sabotage, explore."""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import orjson
import psycopg
import typer
from typer.core import TyperGroup

from ninelives_rig.campaign import FLOWS_MAX, Campaign
from ninelives_rig.cluster.errors import ClusterError
from ninelives_rig.engines import engine_names
from ninelives_rig.evidence.writer import OutRefused
from ninelives_rig.explore.command import explore_command
from ninelives_rig.interruption import interruptible
from ninelives_rig.judging import Outcome, assess
from ninelives_rig.nodes import NodesBroken
from ninelives_rig.progress import Display
from ninelives_rig.refusal import Refused
from ninelives_rig.schedule import SEED_MAX
from ninelives_rig.verdict import Status

_EVIDENCE = Path("reports/evidence")
_PUBLISHED = Path("reports/published")
_FORESEEN = (ClusterError, OutRefused, NodesBroken, Refused)
_TYPER_INTERRUPTED = 130


class _Commands(TyperGroup):
    """All commands. Here is every way out of the program, so that no accident looks like a verdict.

    Typer's own exit codes mean something else: its 2 for wrong usage would be INCONCLUSIVE, Python's 1 for an error
    would be FAIL.
    """

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *_: Any, **extra: Any) -> Any:
        """Run a command and leave with an exit code of ours; ``args`` None means those of the process, the program."""
        with interruptible(for_good=args is None):
            try:
                code = super().main(args, prog_name, **{**extra, "standalone_mode": False})
            except Exception as error:
                code = _tell(error)
            if code == _TYPER_INTERRUPTED:
                typer.echo("interrupted", err=True)
                code = Status.INCONCLUSIVE.exit_code
            sys.exit(code or 0)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Drive a durable-execution engine through kills, keep the evidence, and judge it.\n\n"
    "Exit code: 0 PASS, 1 FAIL, 2 INCONCLUSIVE or interrupted, 3 wrong usage, or a rig that cannot run or broke.",
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
    flows: Annotated[
        int | None, typer.Option(min=1, max=FLOWS_MAX, help="Flows per arm, instead of the campaign's.")
    ] = None,
    kills: Annotated[
        int | None, typer.Option(min=0, max=FLOWS_MAX, help="Kills per arm (default: in proportion to the flows).")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=SEED_MAX, help="The same seed gives the same ids and the same kill schedule.")
    ] = 1,
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
    _conclude(work, target, json, "before there was any evidence; every process has been ended")


@app.command("check")
def check_command(
    bundle: Annotated[Path, typer.Argument(help="The directory that a run wrote.")],
    json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON on standard output.")] = False,
) -> None:
    """Judge a bundle again, from its files alone."""
    again = f"`ninelives-rig check {shlex.quote(str(bundle))}` judges it again"
    _conclude(lambda: assess(bundle), bundle, json, f"before the bundle was judged; {again}")


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
    if beside and publish is None:
        raise Refused("--with adds sections to a published report; give --publish NAME too")
    reports = importlib.import_module("ninelives_reports")
    try:
        written = [reports.render(bundle)]
        if publish is not None:
            written.append(reports.publish(bundle, publish, into=_PUBLISHED, others=beside or ()))
    except (FileNotFoundError, ValueError) as error:
        raise Refused(str(error)) from error
    for path in written:
        typer.echo(f"report: {path}")


@app.command("sabotage", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def sabotage_command(context: typer.Context) -> None:
    """Break the runtime or the rig on purpose, one mutant at a time, and show which checker catches it."""
    raise typer.Exit(importlib.import_module("ninelives_rig.sabotage").main(context.args))


app.command("explore")(explore_command)


def _conclude(work: Callable[[], Outcome], bundle: Path, json: bool, interrupted: str) -> NoReturn:
    """Do the work, print its outcome and leave with its exit code; ``interrupted`` is said when there is none."""
    with interruptible() as interruption:
        try:
            outcome = work()
            interruption.ending()
        except KeyboardInterrupt:
            typer.echo(f"interrupted {interrupted}", err=True)
            raise typer.Exit(Status.INCONCLUSIVE.exit_code) from None
        try:
            _print_outcome(outcome, bundle, json)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nobody reads on; that changes no verdict. What Python flushes at the end goes nowhere too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
        raise typer.Exit(outcome.status.exit_code)


def _print_outcome(outcome: Outcome, bundle: Path, json: bool) -> None:
    if json:
        _print_json(outcome.content)
        return
    typer.echo("\n".join(outcome.lines))
    typer.echo(f"evidence: {bundle}")
    if (bundle / "report.md").exists():
        typer.echo(f"report: {bundle / 'report.md'}")


def _tell(error: Exception) -> int:
    """Say what went wrong, with what to do; an error that nobody foresaw shows where it was raised. Returns 3."""
    # Typer's errors of usage have this method; the class itself is in a place that changes with typer's versions.
    show = getattr(error, "show", None)
    if show is not None:
        show()
        return Status.BROKEN.exit_code
    text = _explained(error)
    if text is None:
        traceback.print_exception(error)
        text = str(error)
    typer.echo(f"error: {text}", err=True)
    return Status.BROKEN.exit_code


def _explained(error: Exception) -> str | None:
    """Return what to tell of an error that is no fault of the rig, or None."""
    room = "free some, or choose other places: --out for the evidence, TMPDIR for the server's data"
    if isinstance(error, _FORESEEN):
        return str(error)
    if isinstance(error, psycopg.errors.DiskFull):
        return f"no space left for the server: {error}; {room}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left: {error}; {room}"
    if isinstance(error, OSError) and error.errno is None and "disk full" in str(error):
        return f"{error} {room[0].upper()}{room[1:]}"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return f"the server refuses it: {error}; give the user of the DSN this right, or take a database of its own"
    if isinstance(error, psycopg.OperationalError):
        said = " ".join(str(error).split())
        return f"the server stopped answering: {said}; its log says why (--keep leaves that of an embedded server)"
    return None


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
