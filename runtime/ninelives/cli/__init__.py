"""The command line: one module per command, `options` for what they share, `report` for what they print."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from ninelives.cli.control import pause_command, rerun_command, resume_command, signal_command
from ninelives.cli.listing import list_command
from ninelives.cli.migrate import migrate_command
from ninelives.cli.node import node_command
from ninelives.cli.report import prepare_streams, say
from ninelives.cli.show import show_command
from ninelives.cli.start import start_command

__all__ = ["app", "run"]

_HELP = """Run durable flows on PostgreSQL, and look after them.

The database is given by --dsn, NINELIVES_DSN, or libpq's own variables (PGHOST, PGSERVICE, PGPASSFILE ...).

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no such instance, 4 database not reachable, 130 interrupted.
"""

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, help=_HELP
)
for _name, _command in (
    ("migrate", migrate_command),
    ("node", node_command),
    ("start", start_command),
    ("show", show_command),
    ("list", list_command),
    ("signal", signal_command),
    ("pause", pause_command),
    ("resume", resume_command),
    ("rerun", rerun_command),
):
    app.command(_name)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"ninelives {version('ninelives')}")
        raise typer.Exit


@app.callback(help=_HELP)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take what comes before the command."""


def run() -> None:
    """Parse the arguments and run a command; every way out has an exit code and no traceback for a user's mistake."""
    prepare_streams()
    try:
        app(prog_name="ninelives")
    except KeyboardInterrupt:
        sys.exit(130)
