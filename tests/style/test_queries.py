"""SQL lives in named blocks: each one is used, says what it locks and what guards it, and is valid on a real server."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import psycopg
import pytest
from psycopg.pq import ExecStatus
from tests.style.source import modules, strings

from ninelives.migrate import migrate
from ninelives.queries import Block, blocks, load, parse

# The start of a statement, seen where prose would be rare. Names of statements alone ("start", "wake") are no SQL.
_SQL = re.compile(
    r"""\s*(?:
        select\s+(?:\S+\s+from\b|\w+\(|\$|%|\*|[\w.]+\s*,|\d|exists\b|distinct\b)
      | select\s+.*\bfrom\b
      | insert\s+into\b | update\s+\S+\s+(?:\w+\s+){0,2}set\b | delete\s+from\b | merge\s+into\b
      | with\s+(?:recursive\s+)?\w+\s*(?:\([^)]*\)\s*)?as\s*(?:not\s+)?(?:materialized\s*)?\(
      | (?:create|alter|drop)\s+(?:or\s+replace\s+|unique\s+|temp\s+)?
        (?:table|schema|index|function|sequence|role|database|view|type)\b
      | truncate\s+\w | (?:un)?listen\s+["\w] | notify\s+["\w]
      | (?:begin|commit|rollback|discard\s+all|reset\s+all)\s*;?\s*$ | savepoint\s | call\s+\w+\(
      | copy\s+\w+.*\b(?:from|to)\b | lock\s+table\b
    )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)

# Settings of a connection touch no rows, so there is nothing to lock or to guard; SET is not looked for either.
_SETTINGS = ("SESSION_SETTINGS", "SESSION_SETTINGS_DURABLE")


def find_sql(module: str, tree: ast.AST) -> list[str]:
    """Return the places where `tree` holds an SQL statement in a string, the settings of connections excepted."""
    settings = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in _SETTINGS
        for part in ast.walk(node)
    }
    return [
        f"{module}:{node.lineno}: {node.value!r:.60}"
        for node in strings(tree)
        if _SQL.match(str(node.value)) and id(node) not in settings
    ]


def header_problems(found: Iterable[Block]) -> list[str]:
    problems = []
    for block in found:
        place = f"{block.file}:{block.line}: {block.name}"
        missing = [key for key in ("purpose", "locks", "guard") if not getattr(block, key)]
        problems += [f"{place} has no '-- {key}:' line" for key in missing]
        if re.search(r"%s|%\(\w+\)s", block.statement):
            problems.append(f"{place} uses %s; placeholders are $1, $2")
        if ";" in re.sub(r"'[^']*'|--[^\n]*", "", block.statement):
            problems.append(f"{place} holds more than one statement")
    return problems


def unused(names: Iterable[str], trees: Iterable[ast.AST]) -> list[str]:
    used = {str(node.value) for tree in trees for node in strings(tree)}
    return sorted(set(names) - used)


def prepare_problems(connection: psycopg.Connection, statements: dict[str, str]) -> list[str]:
    """Let the server parse and analyse each statement, without running it; return what it objects to."""
    problems = []
    for name, text in statements.items():
        result = connection.pgconn.prepare(b"", text.encode())
        if result.status != ExecStatus.COMMAND_OK:
            problems.append(f"{name}: {result.error_message.decode().strip()}")
    return problems


def test_every_block_says_what_it_is_for_what_it_locks_and_what_guards_it() -> None:
    assert header_problems(blocks().values()) == []


def test_every_block_is_used_by_name() -> None:
    assert unused(blocks(), modules("ninelives").values()) == []


def test_no_sql_stands_outside_the_blocks() -> None:
    assert [place for name, tree in modules("ninelives").items() for place in find_sql(name, tree)] == []


@pytest.mark.postgres
@pytest.mark.parametrize("schema", ["ninelives", 'My-"App" 100%'])
def test_every_block_prepares_against_the_migrated_schema(database_dsn: str, schema: str) -> None:
    migrate(database_dsn, schema)
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        assert prepare_problems(connection, dict(load(schema))) == []


@pytest.mark.postgres
def test_a_block_that_does_not_fit_the_schema_is_seen(database_dsn: str) -> None:
    migrate(database_dsn)
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        statements = {
            "good": "select 1",
            "typo": "selct 1",
            "gone": "select x from ninelives.gone",
            "two": "select 1; select 2",
        }
        problems = prepare_problems(connection, statements)
    assert [problem.split(":")[0] for problem in problems] == ["typo", "gone", "two"]


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "select a, b from c",
        "SELECT * FROM x",
        "\n  select pg_sleep(1)",
        "insert into t values (1)",
        "update ninelives.t set a = 1",
        "update t as x set a = 1",
        "delete from t",
        "with a as materialized (select 1) select 2",
        "create table t ()",
        'listen "channel"',
        "commit",
        "copy t (a) from stdin",
    ],
)
def test_sql_in_a_string_is_seen(text: str) -> None:
    assert find_sql("toy", ast.parse(f"x = f({text!r})")) == [f"toy:1: {text!r:.60}"]
    assert find_sql("toy", ast.parse(f"x = f'{{y}}' + {text!r}")) != []


@pytest.mark.parametrize(
    "text",
    [
        "start",
        "commit_rows",
        "commit failed: send it again",
        "select another schema",
        "update the flow's version",
        "with the same dsn and schema",
        "delete the row by hand",
        "create the schema first",
        "set a longer ttl_s",
    ],
)
def test_prose_is_not_taken_for_sql(text: str) -> None:
    assert find_sql("toy", ast.parse(f"x = {text!r}")) == []


def test_docstrings_may_show_sql_and_the_settings_of_connections_are_no_statements() -> None:
    assert find_sql("toy", ast.parse('def f():\n    """select 1"""')) == []
    assert find_sql("toy", ast.parse("SESSION_SETTINGS: Final = ('select 1',)")) == []
    assert find_sql("toy", ast.parse("OTHER: Final = ('select 1',)")) != []


def test_missing_headers_old_placeholders_and_unused_names_are_seen() -> None:
    found = parse("-- name: bad\n-- purpose: show\nselect %s; select 2\n", "toy.sql")
    problems = header_problems(found)
    assert [problem.split("bad ")[1] for problem in problems] == [
        "has no '-- locks:' line",
        "has no '-- guard:' line",
        "uses %s; placeholders are $1, $2",
        "holds more than one statement",
    ]
    assert unused(["bad", "good"], [ast.parse("f('good')\n'bad'")]) == ["bad"]
