"""What several commands take: the database, ids, JSON values."""

from __future__ import annotations

import json
import sys
from math import isinf
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ninelives.cli.report import Usage
from ninelives.errors import SettingRefused
from ninelives.ids import instance_id_for
from ninelives.migrate import require_schema

CONNECT_TIMEOUT_S = 10

Dsn = Annotated[
    str,
    typer.Option(
        "--dsn",
        envvar="NINELIVES_DSN",
        metavar="DSN",
        help="postgresql://user@host/database, or host=... dbname=...; without it libpq's own variables count.",
        show_default=False,
    ),
]
Schema = Annotated[
    str, typer.Option("--schema", envvar="NINELIVES_SCHEMA", metavar="NAME", help="The schema that holds the tables.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output; all else goes to standard error.")]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="TEXT", help="The business key from which the id is derived.", show_default=False),
]
InstanceId = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="The instance's id, a UUID; or give --key.", show_default=False)
]

_HOW = (
    "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with @ : / ? % in the password as %40 %3A %2F %3F %25, "
    "or host=HOST port=PORT user=USER dbname=DATABASE password='...'"
)


def checked_dsn(dsn: str) -> str:
    """Return a connection string that libpq can read, in UTF-8 and with a time-out.

    Raises ``SettingRefused``. libpq's complaint about an unreadable string may quote a piece of the password, and a
    password with a bare `@` or `/` would be taken for a host or a port and told; so neither gets as far as that.
    """
    dsn = dsn.strip()
    try:
        dsn.encode()
        parts = conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeEncodeError):
        raise SettingRefused("dsn", f"cannot be read: {_HOW}") from None
    if any("@" in str(parts.get(name) or "") for name in ("host", "port", "dbname")):
        raise SettingRefused("dsn", f"has an @ in its host, port or database: {_HOW}")
    ports = str(parts.get("port") or "")
    if any(port and not (port.isascii() and port.isdigit() and len(port) <= 5) for port in ports.split(",")):
        raise SettingRefused("dsn", f"has a port that is not a number: {_HOW}")
    parts.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
    try:
        return make_conninfo("", **{**parts, "client_encoding": "utf8"})
    except psycopg.Error:
        raise SettingRefused("dsn", f"cannot be read: {_HOW}") from None


def ready(dsn: str, schema: str) -> str:
    """Return the checked connection string of a database that answers and has the schema.

    Asked in the main thread, where Ctrl-C can end the wait. Raises ``SettingRefused``, ``StoreUnavailable``,
    ``SchemaMissing``, ``SchemaTooNew``.
    """
    dsn = checked_dsn(dsn)
    require_schema(dsn, schema)
    return dsn


def instance_id_of(text: str | None, key: str | None) -> UUID:
    """Return the id that an argument or a business key names; raises ``Usage``."""
    if (text is None) == (key is None):
        raise Usage("name the instance either by its ID or by --key TEXT")
    return uuid_of(text) if text is not None else uuid_for(key or "")


def uuid_of(text: str) -> UUID:
    """Read a UUID; raises ``Usage``."""
    try:
        return UUID(text.strip())
    except ValueError:
        raise Usage(
            f"{text!r:.80} is no UUID; it looks like 0197f3c2-5d1e-7c4a-9b1f-3e5d7a9c1b2d (see `ninelives list`)"
        ) from None


def uuid_for(key: str) -> UUID:
    """Derive an id from a business key; raises ``Usage``."""
    try:
        return instance_id_for(key)
    except ValueError as error:
        raise Usage(f"--key: {error}") from None


def text_of(name: str, text: str) -> str:
    """Return a text that the database can hold; raises ``Usage``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Usage(f"{name} is not valid UTF-8 at character {error.start + 1}; type it in UTF-8") from None
    if not text:
        raise Usage(f"{name} is empty; give a text")
    return text


def json_value(option: str, given: str) -> Any:
    """Read a JSON value from the text itself, from ``@file``, or from standard input (``-``).

    Raises ``Usage`` with line and column of what is wrong. Keys that stand twice, NaN and infinities are refused.
    """
    text, source = _source(option, given)
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_float, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Usage(f"{source} is no JSON: {error.msg} at {place}; strings and keys need double quotes") from None
    except RecursionError:
        raise Usage(f"{source} is nested too deeply; make it flatter") from None
    except ValueError as error:
        raise Usage(f"{source} cannot be stored as it is: {error}") from None


def _source(option: str, given: str) -> tuple[str, str]:
    if given == "-":
        raw, source = sys.stdin.buffer.read(), f"{option} (standard input)"
    elif given.startswith("@"):
        source = f"{option} (file {given[1:]})"
        try:
            raw = Path(given[1:]).read_bytes()
        except (OSError, ValueError) as error:
            raise Usage(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    else:
        return text_of(option, given), option
    try:
        return raw.decode("utf-8-sig"), source
    except UnicodeDecodeError as error:
        raise Usage(f"{source} is not UTF-8 at byte {error.start + 1}; save it as UTF-8") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number; use null or a text")


def _float(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"the number {text:.40} is too large; write it as a text")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object; keep one of them")
    return found
