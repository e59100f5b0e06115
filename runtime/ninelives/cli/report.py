"""What the command line prints: results to standard output, everything else to standard error, and exit codes."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import orjson
import psycopg
import typer

from ninelives.errors import (
    InstanceUnknown,
    NinelivesError,
    PayloadRefused,
    SettingRefused,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from rich.console import Console

OK: Final = 0
REFUSED: Final = 1
USAGE: Final = 2
UNKNOWN: Final = 3
UNREACHABLE: Final = 4
INTERRUPTED: Final = 130

_PIPED_WIDTH: Final = 200
_T = TypeVar("_T")


class Usage(Exception):
    """What was typed cannot be meant: told with exit code 2."""


def prepare_streams() -> None:
    """Print what a terminal or pipe cannot show as an escape sequence instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def exit_code_of(error: NinelivesError) -> int:
    """Return the exit code of an error: 1 to 4, see the command's help."""
    if isinstance(error, InstanceUnknown):
        return UNKNOWN
    if isinstance(error, StoreUnavailable):
        return UNREACHABLE
    return USAGE if isinstance(error, SettingRefused | PayloadRefused) else REFUSED


@contextmanager
def reported(json: bool, when_interrupted: Callable[[], str] = lambda: "nothing was changed") -> Iterator[None]:
    """Turn every foreseen error of a command into one line, an exit code and, with ``json``, one JSON object."""
    try:
        yield
    except Usage as error:
        _fail("usage", str(error), USAGE, json)
    except NinelivesError as error:
        _fail(error.code, str(error), exit_code_of(error), json)
    except psycopg.OperationalError as error:
        reason = " ".join(str(error).split())
        _fail("store.unavailable", f"the database did not answer: {reason}; try again", UNREACHABLE, json)
    except (KeyboardInterrupt, asyncio.CancelledError):
        _fail("interrupted", f"interrupted; {when_interrupted()}", INTERRUPTED, json)
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except Exception as error:
        traceback.print_exception(error)
        _fail("bug", f"{type(error).__name__}: {error}; this is a fault of ninelives, please report it", REFUSED, json)


def _fail(code: str, message: str, exit_code: int, json: bool) -> NoReturn:
    if json:
        print_json({"error": {"code": code, "message": message}}, line=True)
    note(f"error: {message}")
    raise typer.Exit(exit_code) from None


def note(message: str) -> None:
    """Print a line for people on standard error."""
    print(visible(message), file=sys.stderr, flush=True)


def say(message: str) -> None:
    """Print a line of the result."""
    print(visible(message), flush=True)


def print_json(value: object, *, line: bool = False) -> None:
    """Print a JSON document, or with ``line`` a JSON line, on standard output."""
    text = orjson.dumps(value, option=0 if line else orjson.OPT_INDENT_2).decode()
    print(text, flush=True)


def visible(text: str) -> str:
    """Show what a terminal would obey or swallow, so that a stored text cannot move the reader's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def one_line(value: object, width: int = 100) -> str:
    """Show a JSON value in at most ``width`` characters."""
    text = visible(orjson.dumps(value).decode())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def console() -> Console:
    """Return where tables go; a pipe gets wide lines without colours, so that nothing is cut."""
    # A quarter of the start of a command that prints JSON or one line.
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def print_table(columns: list[str], rows: list[list[str]], *, folds: str = "") -> None:
    """Print rows under their columns; only the column ``folds`` may be broken into lines."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, no_wrap=name != folds, overflow="fold")
    for row in rows:
        table.add_row(*(visible(cell) for cell in row))
    console().print(table)


def span(seconds: float) -> str:
    """Write a duration in seconds as people say it: 12 ms, 3.4 s, 5 min, 2.5 h, 3.1 d."""
    for limit, unit, size in ((1, "ms", 0.001), (120, "s", 1.0), (7200, "min", 60.0), (172_800, "h", 3600.0)):
        if abs(seconds) < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:.1f} d"


def since(then: str, now: str) -> str:
    """Write when something was or will be, seen from the database's ``now``."""
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def clock(then: str | None) -> str:
    """Write a time in UTC to the millisecond."""
    return "-" if then is None else f"{then[:10]} {then[11:23]}"


def run_async(main: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine on uvloop where there is one."""
    factory = None
    if os.name == "posix":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())
