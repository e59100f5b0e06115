"""The named SQL blocks of `sql/*.sql`, loaded once and addressed to one schema.

A block is written like this and holds exactly one statement with `$1` placeholders (a header's second line is
indented):

    -- name: lease_release
    -- purpose: give an instance back so that any node may take it
    -- locks: the wake row, then the instance row
    -- guard: holder is this session and the lease token is the caller's
    update ninelives.flow_wake set ... where instance_id = $1

The files always write `ninelives.`; `load` puts the user's schema in its place. Because the store takes the
mapping as a parameter, replacing one block (`overrides`) is all it takes to plant a mutant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from ninelives.errors import SettingRefused

SCHEMA_BYTES_MAX = 63
"""PostgreSQL cuts longer names off silently, so that two schemas could become one."""

HEADERS = ("purpose", "locks", "guard")

_SQL_FOLDER = Path(__file__).parent / "sql"
_NAME_LINE = re.compile(r"--\s*name:\s*(?P<name>\S+)\s*$")
_HEADER_LINE = re.compile(r"--\s*(?P<key>purpose|locks|guard):\s*(?P<text>.*\S)\s*$")
_BLOCK_NAME = re.compile(r"[a-z][a-z0-9_]*")

# One alternative per kind of SQL token in which the prefix must be left alone, then the prefix itself.
# Dollar-quoted text is a function's body, that is, code: its inside is looked at again.
_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<literal> (?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' )
    | (?P<quoted> "(?:[^"]|"")*" )
    | (?P<dollar> (?<![\w$]) (?P<tag> \$(?:[A-Za-z_]\w*)?\$ ) (?P<body> .*? ) (?P=tag) )
    | (?P<prefix> (?<![\w.$])ninelives\.(?=[A-Za-z_"]) )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One named statement as it stands in its file, the schema not yet put in.

    `purpose`, `locks` and `guard` are the header lines ('' where one is missing; a style test refuses that).
    """

    name: str
    file: str
    line: int
    purpose: str
    locks: str
    guard: str
    statement: str


def quote_identifier(name: str) -> str:
    """Return `name` as a quoted SQL identifier, for a schema that a user chose freely.

    Raises SettingRefused for what PostgreSQL would cut off, reserve or misread: an empty name, NUL, a lone
    surrogate, more than 63 bytes of UTF-8, `pg_...` and `information_schema`.
    """
    reason = _reason_to_refuse(name)
    if reason:
        raise SettingRefused("schema", f"{name!r:.80} {reason}; choose another schema name")
    return '"' + name.replace('"', '""') + '"'


def in_schema(sql: str, schema: str) -> str:
    """Return `sql` with the prefix `ninelives.` of tables and functions replaced by the quoted `schema`.

    String literals, quoted identifiers and comments are left alone; bodies of functions (`$$ ... $$`) are
    code and are rewritten too. Raises SettingRefused as `quote_identifier` does.
    """
    return _rewrite(sql, quote_identifier(schema))


def parse(text: str, file: str) -> list[Block]:
    """Split one SQL file into its blocks.

    Raises ValueError, naming file and line, for text before the first block, a bad name or an empty block.
    """
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if _NAME_LINE.match(line)]
    for number, line in enumerate(lines[: starts[0] if starts else len(lines)]):
        if line.strip() and not line.startswith("--"):
            raise ValueError(f"{file}:{number + 1}: SQL before the first '-- name:' line; give it a name")
    ends = [*starts[1:], len(lines)]
    return [_block(lines[start:end], file, start + 1) for start, end in zip(starts, ends, strict=False)]


@lru_cache(maxsize=1)
def blocks() -> Mapping[str, Block]:
    """Return every block shipped with the runtime by name, read from the files once per process.

    Raises ValueError when a name is used twice.
    """
    found: dict[str, Block] = {}
    for block in _read(sorted(_SQL_FOLDER.glob("*.sql"))):
        if block.name in found:
            first = found[block.name]
            raise ValueError(
                f"{block.file}:{block.line}: block {block.name!r} already stands in"
                f" {first.file}:{first.line}; rename one of them"
            )
        found[block.name] = block
    return MappingProxyType(found)


def load(schema: str, overrides: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, str]:
    """Return statement by block name, addressed to `schema`; the mapping cannot be changed.

    `overrides` replaces statements by block name, written with the prefix `ninelives.` like the originals.
    Raises SettingRefused for a schema name that cannot be used and KeyError for an override of no block.
    """
    known = blocks()
    unknown = sorted(set(overrides) - set(known))
    if unknown:
        raise KeyError(f"no SQL block named {', '.join(unknown)}; the names are {', '.join(sorted(known))}")
    quoted = quote_identifier(schema)
    return MappingProxyType(
        {name: _rewrite(overrides.get(name, block.statement), quoted) for name, block in known.items()}
    )


def _reason_to_refuse(name: str) -> str:
    if not name:
        return "is empty"
    if "\0" in name:
        return "contains NUL"
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is not text"
    if size_bytes > SCHEMA_BYTES_MAX:
        return f"is {size_bytes} bytes long, and PostgreSQL keeps {SCHEMA_BYTES_MAX}"
    if name.startswith("pg_") or name == "information_schema":
        return "is reserved by PostgreSQL"
    return ""


def _rewrite(sql: str, quoted: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["prefix"]:
            return f"{quoted}."
        if match["dollar"]:
            return _dollar_quote(_rewrite(match["body"], quoted), match["tag"])
        return match[0]

    return _TOKEN.sub(replace, sql)


def _dollar_quote(body: str, tag: str) -> str:
    # A schema named a$$b would end the quotation early: quote with a tag that the body does not contain.
    number = 0
    while tag in body:
        number += 1
        tag = f"$nl{number}$"
    return f"{tag}{body}{tag}"


def _read(files: Iterable[Path]) -> Iterable[Block]:
    for path in files:
        yield from parse(path.read_text(encoding="utf-8"), path.name)


def _block(lines: list[str], file: str, line: int) -> Block:
    match = _NAME_LINE.match(lines[0])
    name = match["name"] if match else ""
    if not _BLOCK_NAME.fullmatch(name):
        raise ValueError(f"{file}:{line}: block name {name!r} must be a lower-case word like lease_release")
    headers = dict.fromkeys(HEADERS, "")
    key = ""
    body_at = 1
    while body_at < len(lines) and lines[body_at].startswith("--"):
        header = _HEADER_LINE.match(lines[body_at])
        if header:
            key = header["key"]
            headers[key] = header["text"]
        elif key and lines[body_at].startswith("--  "):
            headers[key] += " " + lines[body_at].lstrip("- ").rstrip()
        body_at += 1
    statement = "\n".join(lines[body_at:]).strip().removesuffix(";").rstrip()
    if not statement:
        raise ValueError(f"{file}:{line}: block {name!r} holds no statement")
    return Block(name=name, file=file, line=line, statement=statement, **headers)
