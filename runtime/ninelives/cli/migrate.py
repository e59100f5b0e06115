"""`ninelives migrate`: bring a schema to this release's version."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ninelives.cli.options import Dsn, Json, Schema, checked_dsn
from ninelives.cli.report import print_json, reported, say
from ninelives.errors import SettingRefused
from ninelives.migrate import migrate


def migrate_command(
    dsn: Dsn = "",
    schema: Schema = "ninelives",
    json: Json = False,
    wait_s: Annotated[float, typer.Option(help="Seconds to wait for locks that others hold.")] = 60.0,
) -> None:
    """Create the schema or bring it up to date. Safe to repeat, and from many machines at once."""
    with reported(json, lambda: "a migration file is applied whole or not at all; run it again"):
        if not 0 <= wait_s <= 86_400:
            raise SettingRefused("wait_s", f"is {wait_s}; give a number from 0 to 86400")
        report = migrate(checked_dsn(dsn), schema, wait_s=wait_s)
        if json:
            print_json({"schema": schema, **asdict(report)})
            return
        for name in report.applied:
            say(f"applied {name}")
        say(f"schema {schema!r} is at version {report.version}" + ("" if report.applied else ", nothing to do"))
