"""The command line of trials: `python -m ninelives_bench.sustained --rate .. --set name=value`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ninelives_bench.results import plain
from ninelives_bench.suite_progress import say
from ninelives_bench.sustained_trial import SPIKE_MS, Trial, run_trial
from ninelives_bench.sustained_watch import SLOW_MS

app = typer.Typer(add_completion=False, help="Try a load under other settings of the server and of the tables.")


@app.command()
def try_load(
    rate: Annotated[int, typer.Option(min=1, help="Commits, or flows, offered in a second.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.1)] = 60.0,
    flows: Annotated[bool, typer.Option("--flows", help="Flows of three steps instead of step commits.")] = False,
    saturate: Annotated[float, typer.Option(min=0, help="Seconds at full speed before.")] = 0.0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A server setting, name=value; repeatable.")] = None,
    storage: Annotated[list[str] | None, typer.Option(help="Of a table, table:name=value; repeatable.")] = None,
    no_autovacuum: Annotated[list[str] | None, typer.Option(help="A table that is not vacuumed; repeatable.")] = None,
    checkpoint_first: Annotated[bool, typer.Option("--checkpoint-first", help="Behind the saturation.")] = False,
    vacuum_later: Annotated[list[str] | None, typer.Option(help="A table vacuumed only while measured.")] = None,
    recycled: Annotated[int, typer.Option(min=0, help="WAL segments that are there to recycle before.")] = 0,
    postgres: Annotated[str | None, typer.Option(help="16 or 18 (default: the newest embedded).")] = None,
    window: Annotated[float, typer.Option(min=0.1)] = 5.0,
    seed: Annotated[int, typer.Option(min=0)] = 1,
    out: Annotated[Path | None, typer.Option(help="Where the whole result goes, as JSON.")] = None,
) -> None:
    """Load a server of its own and say what the responses were, and what the server waited for in the spikes."""
    try:
        parameters = [storage_of(text) for text in storage or ()]
        settings = dict(pair_of(text, "--set") for text in set_ or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    parameters += [(table, "autovacuum_enabled", "off") for table in no_autovacuum or ()]
    trial = Trial(
        rate, seconds, flows, saturate, recycled=recycled, window_s=window, postgres=postgres, seed=seed,
        settings=settings, storage=tuple(parameters), vacuumed_later=tuple(vacuum_later or ()),
        checkpoint_first=checkpoint_first,
    )  # fmt: skip
    found = plain(run_trial(trial))
    for line in lines_of(found):
        say(line)
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n")


def pair_of(text: str, option: str) -> tuple[str, str]:
    """Split name=value; raises ValueError."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"{option} {text!r}: write name=value")
    return name.strip(), value.strip()


def storage_of(text: str) -> tuple[str, str, str]:
    """Split table:name=value; raises ValueError."""
    table, colon, rest = text.partition(":")
    if not (table and colon):
        raise ValueError(f"--storage {text!r}: write table:name=value")
    return table.strip(), *pair_of(rest, "--storage")


def lines_of(found: dict[str, Any]) -> list[str]:
    """Say a trial in lines: its windows, its spikes and what was waited for in them."""
    response = found["response_ms"]
    lines = [_window(window) for window in found["windows"]]
    lines += [f"table {_table(one)}" for one in found["tables"]]
    lines += [
        "checkpoint: {buffers:.0f} buffers, write {write_s} s, sync {sync_s} s (longest {longest_sync_s} s);"
        " WAL files {added:.0f} added, {removed:.0f} removed, {recycled:.0f} recycled".format(**one)
        for one in found["checkpoints"]
    ]
    lines += [
        f"vacuum of {one['table']}: {one.get('pages', 0):,} pages in {one.get('seconds', 0.0):.1f} s,"
        f" {one.get('wal_bytes', 0) / 1e6:.0f} MB of WAL, {one.get('full_pages', 0):,} full pages"
        for one in found["vacuums"]
    ]
    lines += _waits("all the time", found["waits"][:8])
    lines += [
        f"transactions of nodes over {SLOW_MS:.0f} ms: {one['seconds']:.2f} s at {one['what']},"
        f" the oldest {one['oldest_ms']:.0f} ms"
        for one in found["stalls"][:10]
    ]
    lines += _waits(f"in {found['spike_s']:.1f} s with a response over {SPIKE_MS:.0f} ms", found["waits_in_spikes"][:8])
    if response["n"]:
        lines.append(
            f"{found['achieved_per_s']:,.0f}/s, p50 {response['p50']:.2f}, p99 {response['p99']:.2f},"
            f" p99.9 {response['p999']:.1f}, max {response['max']:.1f} ms; {found['failed']} failed,"
            f" {found['unanswered']} unanswered, {found.get('of_others', 0.0):.2f} processors used by others"
        )
    return lines


def _waits(when: str, waits: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{when}: {one['processes']:.2f} of {one['who']} at {one['what']}" for one in waits]


def _window(window: dict[str, Any]) -> str:
    if not window["n"]:
        return f"{window['at_s']:5.0f} s: nothing was due"
    work = f"; {', '.join(window['background'])}" if window["background"] else ""
    return (
        f"{window['at_s']:5.0f} s: p50 {window['p50']:.2f}, p99 {window['p99']:.2f}, max {window['max']:.1f} ms,"
        f" others {window.get('of_others', 0.0):.2f}{work}"
    )


def _table(one: dict[str, Any]) -> str:
    hot = "" if one["hot_share"] is None else f", {one['hot_share']:.1%} HOT"
    return (
        f"{one['name']}: {one['bytes_before'] / 1e6:.0f} -> {one['bytes_after'] / 1e6:.0f} MB,"
        f" {one['dead_tuples']:,} dead{hot}, {one['vacuums']} vacuums, {one['analyzes']} analyzes"
    )
