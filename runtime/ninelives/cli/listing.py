"""`ninelives list`: the newest instances, and how many there are in each state."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ninelives import inspect
from ninelives.cli.options import Dsn, Json, Schema, ready, text_of
from ninelives.cli.report import clock, note, print_json, print_table, reported, run_async, say, since


def list_command(
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help=f"One of {', '.join(inspect.STATES)}.", show_default=False)
    ] = None,
    flow: Annotated[
        str | None, typer.Option(metavar="FLOW_ID", help="Only instances of this flow.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="How many instances at most.")] = 50,
    in_doubt: Annotated[
        bool, typer.Option("--in-doubt", help="Only instances with an effect that may or may not have happened.")
    ] = False,
    dsn: Dsn = "",
    schema: Schema = "ninelives",
    json: Json = False,
) -> None:
    """List instances, newest first, with counts by state of all that match. The counts read the whole table."""
    with reported(json):
        wanted = None if state is None else _state(state)
        inspect.check_state(wanted)
        inspect.check_limit("limit", limit)
        if flow is not None:
            text_of("--flow", flow)
        checked = ready(dsn, schema)
        facts = run_async(
            lambda: inspect.listing(checked, schema, state=wanted, flow_id=flow, limit=limit, in_doubt=in_doubt)
        )
        if json:
            print_json(facts)
        else:
            _tell(facts)


def _state(text: str) -> str:
    """Accept a state in any case; what is none of them stays as it is."""
    return next((state for state in inspect.STATES if state.lower() == text.lower()), text)


def _tell(facts: dict[str, Any]) -> None:
    say(", ".join(f"{count} {state}" for state, count in facts["counts"].items()) or "no instances")
    if not facts["instances"]:
        return
    rows = [_row(line, facts["read_at"]) for line in facts["instances"]]
    print_table(["instance", "flow", "state", "rows", "token", "node", "created (UTC)", "changed", "remarks"], rows)
    if facts["more"]:
        note(f"there are more; these are the newest {len(rows)} (--limit)")


def _row(line: dict[str, Any], now: str) -> list[str]:
    remarks = ["paused"] if line["paused"] else []
    if line["in_doubt"]:
        remarks.append(f"{line['in_doubt']} in doubt")
    if line["run_at"]:
        remarks.append(f"due {since(line['run_at'], now)}")
    return [
        line["instance_id"],
        f"{line['flow_id']} {line['version']}",
        line["state"],
        str(line["rows"]),
        str(line["token"]),
        line["node"] or "-",
        clock(line["created_at"]),
        since(line["finished_at"] or line["updated_at"], now),
        ", ".join(remarks),
    ]
