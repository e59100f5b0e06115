"""`ninelives-rig explore`: every order of the statements of operations that meet, and the mutants that must show."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from ninelives_rig.refusal import Refused
from ninelives_rig.verdict import Status

if TYPE_CHECKING:
    from ninelives_rig.explore.states import Case
    from ninelives_rig.explore.tasks import Place

_SCHEMA = "ninelives_explore"


def explore_command(
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CASE", help="Only cases with this in their name, as `signal` or `@dead`; repeatable."),
    ] = None,
    script: Annotated[
        str | None, typer.Option(metavar="CASE:ORDER", help="Run one schedule, as `park+signal@held:ABBA`.")
    ] = None,
    plant: Annotated[str | None, typer.Option(metavar="MUTANT", help="Plant this mutant with --script.")] = None,
    mutants: Annotated[
        bool, typer.Option("--mutants/--no-mutants", help="Whether to look for the mutants too (not with --only).")
    ] = True,
    list_: Annotated[bool, typer.Option("--list", help="List cases and mutants, and explore none.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write explore.json and explore.md into this place.")] = None,
    postgres: Annotated[str | None, typer.Option(help="16, 18 or docker (default: the newest embedded).")] = None,
    dsn: Annotated[str | None, typer.Option(help="Use this server; one process explores then.")] = None,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="Processes that explore at a time.")] = 2,
    at_most: Annotated[int, typer.Option(min=1, help="Schedules of one case; some triples have many more.")] = 5_000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Run the store's operations against each other in every order of their statements, on a real server.

    Exit code: 0 when no schedule violates an invariant and every mutant is found, 1 otherwise.
    """
    # Here, because listing and refusing have no need of all this.
    from ninelives_rig.explore import mutants as planted
    from ninelives_rig.explore.survey import Survey, show_script
    from ninelives_rig.explore.tasks import Task, run_tasks, split
    from ninelives_rig.explore.written import as_markdown

    if plant is not None and script is None:
        raise Refused("--plant goes with --script: name the schedule in which the mutant shall be seen")
    if script is not None:
        with _place(dsn, postgres) as place:
            raise typer.Exit(show_script(script, place, plant))
    cases = _chosen(only or [])
    wanted = planted.RACE_MUTANTS if mutants and not only else ()
    survey = Survey(quiet=json)
    if list_:
        survey.list(cases, wanted)
        return
    began = time.monotonic()
    with _place(dsn, postgres) as place:
        tasks = split(cases, place, at_most)
        tasks += [Task(place.numbered(len(tasks) + n), one.cases, one.name) for n, one in enumerate(wanted)]
        for task, told in run_tasks(tasks, at_once if place.own_database else 1):
            survey.add(task, told)
    content = survey.close(time.monotonic() - began)
    encoded = orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "explore.json").write_bytes(encoded)
        (out / "explore.md").write_text(as_markdown(content))
    if json:
        sys.stdout.buffer.write(encoded)
    raise typer.Exit(0 if survey.good else Status.FAIL.exit_code)


def _chosen(only: Sequence[str]) -> list[Case]:
    from ninelives_rig.explore.states import pairs, triples

    cases = [*pairs(), *triples()]
    found = [case for case in cases if not only or any(part in str(case) for part in only)]
    if not found:
        raise Refused(f"no case has {' or '.join(only)} in its name; `ninelives-rig explore --list` lists them")
    return found


@contextmanager
def _place(dsn: str | None, postgres: str | None) -> Iterator[Place]:
    """Open the server that was chosen; a user's own gets schemas that a later run knows as left behind."""
    from ninelives_rig import schemas
    from ninelives_rig.cluster.ladder import open_server
    from ninelives_rig.explore.tasks import Place
    from ninelives_rig.rundir import RunDirectory

    with RunDirectory.create() as run, open_server(run, dsn=dsn, postgres=postgres, allow_weak=True) as server:
        if dsn is None:
            yield Place(server.dsn, _SCHEMA, own_database=True)
        else:
            schemas.drop_left(server.dsn, _SCHEMA)
            yield Place(server.dsn, schemas.schema_prefix(_SCHEMA, keep=False), own_database=False)
