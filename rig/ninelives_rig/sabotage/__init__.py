"""Breaks the runtime or the rig on purpose, one mutant at a time, and shows which checker catches it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ninelives_rig.sabotage.mutants import MUTANTS, NOT_PLANTED, Mutant
from ninelives_rig.schedule import SEED_MAX

_WIDTHS = (28, 15, 12, 5)
_INTERRUPTED = 130
"""What typer returns for Ctrl-C."""


def main(arguments: Sequence[str]) -> int:
    """Run ``ninelives-rig sabotage`` with these arguments; returns 0, 1 for a survivor, 2 or 3."""
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command.command("sabotage")(sabotage_command)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = command(list(arguments), standalone_mode=False, prog_name="ninelives-rig sabotage")
    except Exception as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    finally:
        signal.signal(signal.SIGTERM, before)
    if code == _INTERRUPTED:
        print("interrupted; every process has been ended", file=sys.stderr)
        return 2
    return int(code or 0)


def sabotage_command(
    only: Annotated[list[str] | None, typer.Option(help="Plant only this mutant; may be repeated.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the mutants and plant none.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=SEED_MAX, help="The same seed gives the same ids and kill schedules.")
    ] = 1,
    out: Annotated[Path | None, typer.Option(help="Keep every bundle here: a new or empty directory.")] = None,
    postgres: Annotated[str | None, typer.Option(help="16, 18 or docker (default: the newest embedded).")] = None,
    dsn: Annotated[str | None, typer.Option(help="Use this server instead of starting one.")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 2,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Plant mutants although a control failed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Break the runtime or the rig on purpose, one mutant at a time, and show which checker catches it.

    Every scenario is run first without a mutant and has to pass. Exit code: 0 when every mutant is caught by its
    checker, 1 when one survives or a control fails.
    """
    mutants = _chosen(only or [])
    if list_:
        _list(mutants, json)
        return 0
    began = time.monotonic()
    folder = None if out is None else _check_empty(out)
    controls, caught = _run(mutants, folder, seed, dsn, postgres, at_once, keep_going, quiet=json)
    ended = all(one["good"] for one in (*controls, *caught)) and len(caught) == len(mutants)
    seconds = round(time.monotonic() - began, 1)
    if json:
        not_planted = [dict(zip(("mutants", "removes", "reason"), one, strict=True)) for one in NOT_PLANTED]
        content = {"controls": controls, "mutants": caught, "not_planted": not_planted, "seconds": seconds}
        sys.stdout.buffer.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    else:
        _print_not_planted()
        survived = [str(one["name"]) for one in (*controls, *caught) if not one["good"]]
        verdict = f"not as it should be: {', '.join(survived)}" if survived else "every control passed"
        number = sum(bool(one["good"]) for one in caught)
        print(f"\n{number} of {len(mutants)} mutants caught by their checker in {seconds:.0f} s; {verdict}")
    return 0 if ended else 1


def _chosen(only: Sequence[str]) -> list[Mutant]:
    unknown = sorted(set(only) - {one.name for one in MUTANTS})
    if unknown:
        raise ValueError(f"no mutant {', '.join(unknown)}; see ninelives-rig sabotage --list")
    return [one for one in MUTANTS if not only or one.name in only]


def _check_empty(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise ValueError(f"{out} is not empty; name an empty or a new directory with --out")
    return out


def _run(
    mutants: list[Mutant],
    folder: Path | None,
    seed: int,
    dsn: str | None,
    postgres: str | None,
    at_once: int,
    keep_going: bool,
    quiet: bool,
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Run controls, then mutants; print each line as it is known."""
    # Here, because listing has no need of a server.
    from ninelives_rig.cluster.ladder import open_server
    from ninelives_rig.rundir import RunDirectory
    from ninelives_rig.sabotage.bench import Outcome, plan_jobs, run_jobs, spoil

    def told(outcome: Outcome) -> dict[str, object]:
        mutant = outcome.job.mutant
        line: dict[str, object] = {
            "name": outcome.job.name,
            "good": outcome.good,
            "scenario": outcome.job.scenario.name,
            "checker": mutant.checker if mutant else None,
            "protocol": mutant.protocol if mutant else None,
            "evidence": outcome.evidence,
            "seconds": round(outcome.seconds, 1),
        }
        if not quiet:
            _print_line(line)
        return line

    with RunDirectory.create() as run_directory, open_server(run_directory, dsn=dsn, postgres=postgres) as server:
        controls, jobs = plan_jobs(mutants, folder or run_directory.path / "sabotage")
        if not quiet:
            _print_row("scenario without a mutant", "", "", "s", "verdict")
        passed = [told(one) for one in run_jobs(controls, server.dsn, seed, at_once)]
        if not keep_going and not all(one["good"] for one in passed):
            return passed, []
        if not quiet:
            print()
            _print_row("mutant", "caught by", "protocol", "s", "evidence")
        caught = [told(one) for one in run_jobs(jobs, server.dsn, seed, at_once)]
        bundles = {job.scenario.name: job.bundle for job in controls}
        caught += [told(spoil(job, bundles[job.scenario.name])) for job in jobs if job.mutant and job.mutant.spoil]
    return passed, caught


def _print_line(line: dict[str, object]) -> None:
    checker = line["checker"] or ""
    name = str(line["name"]).removeprefix("control of ")
    caught = (checker if line["good"] else "SURVIVED") if checker else ("" if line["good"] else "FAILED")
    _print_row(name, str(caught), str(line["protocol"] or ""), f"{line['seconds']}", str(line["evidence"]))


def _print_row(*cells: str) -> None:
    *head, last = cells
    print("  ".join([*(cell.ljust(width) for cell, width in zip(head, _WIDTHS, strict=True)), last]), flush=True)


def _print_not_planted() -> None:
    print()
    _print_row("model's mutant, not planted", "", "", "", "what it takes away; why it is not planted")
    for numbers, removes, reason in NOT_PLANTED:
        _print_row(numbers, "", "", "", f"{removes}; {reason}")


def _list(mutants: list[Mutant], json: bool) -> None:
    if json:
        names = ("name", "removes", "protocol", "scenario", "checker")
        lines = [{name: getattr(one, name) for name in names} for one in mutants]
        sys.stdout.buffer.write(orjson.dumps(lines, option=orjson.OPT_INDENT_2) + b"\n")
        return
    for one in mutants:
        _print_row(one.name, one.checker, one.protocol, "", f"{one.removes} (in {one.scenario})")
    _print_not_planted()
