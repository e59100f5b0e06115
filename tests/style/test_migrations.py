"""Migration files keep the rules of migrations/README.md: an expand file must not break the code that still runs."""

from __future__ import annotations

import re

import pytest
from tests.style.source import TOP

from ninelives.migrate import read_migrations

FOLDER = TOP / "migrations"

_HEADER = {
    "-- NNNN what it adds": re.compile(r"-- \d{4} \S.*"),
    "-- before: which code may run before it": re.compile(r"--.*\bbefore: ?\S.*"),
    "after: which code may run after it": re.compile(r"--.*\bafter: ?\S.*"),
    "-- locks: what it locks": re.compile(r"-- locks: ?\S.*"),
}
# Would break the release before this one, or hold a lock for as long as a table is big.
_NOT_IN_EXPAND = {
    "DROP": re.compile(r"\bdrop\b", re.I),
    "RENAME": re.compile(r"\brename\b", re.I),
    "SET NOT NULL": re.compile(r"\bset\s+not\s+null\b", re.I),
    "a changed type": re.compile(r"\balter\s+(?:column\s+)?\w+\s+(?:set\s+data\s+)?type\b", re.I),
    "TRUNCATE": re.compile(r"\btruncate\b", re.I),
    "NOT NULL without a default on an existing table": re.compile(
        r"\badd\s+(?:column\s+)?(?!constraint\b)\w+\s+(?:(?!\bdefault\b)[^,;])*\bnot\s+null\b(?!(?:[^,;])*\bdefault\b)",
        re.I,
    ),
}
_NEVER = {
    "its own transaction": re.compile(r"^\s*(?:begin|start\s+transaction|commit|rollback)\s*;", re.I | re.M),
    "CONCURRENTLY": re.compile(r"\bconcurrently\b", re.I),
    "IF NOT EXISTS": re.compile(r"\bif\s+(?:not\s+)?exists\b", re.I),
    "a search_path": re.compile(r"\bsearch_path\b", re.I),
}
_BARE_TARGET = re.compile(
    r"\b(?:create\s+(?:unlogged\s+)?table|alter\s+table|create\s+(?:or\s+replace\s+)?function|create\s+type"
    r"|create\s+sequence|references|insert\s+into)\s+(?!ninelives\.)(\S+)"
    r"|\bcreate\s+(?:unique\s+)?index\s+\w+\s+on\s+(?!ninelives\.)(\S+)",
    re.I,
)


def without_comments(sql: str) -> str:
    return re.sub(r"'(?:[^']|'')*'|--[^\n]*", lambda match: "''" if match[0].startswith("'") else "", sql)


def migration_problems(name: str, text: str) -> list[str]:
    header = [line for line in text.split("\n\n")[0].splitlines() if line.startswith("--")]
    problems = [f"header lacks '{what}'" for what, rule in _HEADER.items() if not any(map(rule.match, header))]
    if header and not header[0].startswith(f"-- {name[:4]} "):
        problems.append("header names another number")
    code = without_comments(text)
    if "_expand_" in name:
        problems += [f"{what} in an expand migration" for what, rule in _NOT_IN_EXPAND.items() if rule.search(code)]
    problems += [f"{what} in a migration" for what, rule in _NEVER.items() if rule.search(code)]
    problems += [f"{match[1] or match[2]} lacks the prefix ninelives." for match in _BARE_TARGET.finditer(code)]
    return problems


def test_migrations_are_numbered_and_each_keeps_the_rules() -> None:
    found = read_migrations(FOLDER)
    assert len(found) == len([path for path in FOLDER.iterdir() if path.name != "README.md"])
    assert {file.name: problems for file in found if (problems := migration_problems(file.name, file.sql))} == {}


GOOD = """\
-- 0002 note: a remark on each instance.
-- before: ninelives 0.1. after: ninelives 0.1 and newer.
-- locks: flow_instance, for an instant.

alter table ninelives.flow_instance add column note text; -- we do not DROP or RENAME anything
create index flow_note on ninelives.flow_instance (note) where note <> 'drop';
"""


def test_a_good_file_has_no_problem() -> None:
    assert migration_problems("0002_expand_note.sql", GOOD) == []
    dropped = GOOD + "alter table ninelives.flow_instance drop column note;"
    assert migration_problems("0002_contract_note.sql", dropped) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("select 1;", "header lacks '-- locks: what it locks'"),
        (GOOD.replace("before:", "earlier:"), "header lacks '-- before: which code may run before it'"),
        (GOOD.replace("0002", "0003"), "header names another number"),
        (GOOD + "drop index ninelives.flow_note;", "DROP in an expand migration"),
        (GOOD + "alter table ninelives.t rename column a to b;", "RENAME in an expand migration"),
        (GOOD + "alter table ninelives.t alter a set  NOT null;", "SET NOT NULL in an expand migration"),
        (GOOD + "alter table ninelives.t alter column a type bigint;", "a changed type in an expand migration"),
        (
            GOOD + "alter table ninelives.t add column a int not null;",
            "NOT NULL without a default on an existing table in an expand migration",
        ),
        (GOOD + "create index concurrently i on ninelives.t (a);", "CONCURRENTLY in a migration"),
        (GOOD + "begin;\ncommit;", "its own transaction in a migration"),
        (GOOD + "create table t ();", "t lacks the prefix ninelives."),
        (GOOD + "create unique index i on t (a);", "t lacks the prefix ninelives."),
    ],
)
def test_each_kind_of_problem_is_seen(text: str, problem: str) -> None:
    assert problem in migration_problems("0002_expand_note.sql", text)


def test_a_column_that_is_filled_by_its_default_may_be_not_null() -> None:
    for column in ("a int not null default 0", "a int default 0 not null"):
        assert migration_problems("0002_expand_a.sql", GOOD + f"alter table ninelives.t add column {column};") == []
