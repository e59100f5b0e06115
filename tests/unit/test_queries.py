"""Named SQL blocks: how files are read, and how the user's schema takes the place of the prefix."""

from __future__ import annotations

import pytest

from ninelives.errors import SettingRefused
from ninelives.queries import blocks, in_schema, load, parse, quote_identifier

TEXT = """\
-- A remark about the whole file.

-- name: first
-- purpose: show a block
--   that takes two lines
-- locks: none
-- guard: none
-- A remark about the statement.
select 1 -- and a remark inside
  from ninelives.t;

-- name: second
select 2
"""


def test_a_file_is_split_into_blocks_with_their_headers() -> None:
    first, second = parse(TEXT, "toy.sql")
    assert (first.name, first.file, first.line) == ("first", "toy.sql", 3)
    assert first.purpose == "show a block that takes two lines"
    assert (first.locks, first.guard) == ("none", "none")
    assert first.statement == "select 1 -- and a remark inside\n  from ninelives.t"
    assert (second.name, second.line, second.statement, second.purpose) == ("second", 12, "select 2", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("select 1;\n-- name: late\nselect 2", r"toy.sql:1: SQL before the first"),
        ("select 1", r"toy.sql:1: SQL before the first"),
        ("-- name: Bad-Name\nselect 1", r"toy.sql:1: block name 'Bad-Name'"),
        ("-- name: empty\n-- purpose: x\n\n-- name: other\nselect 1", r"toy.sql:1: block 'empty' holds no statement"),
    ],
)
def test_a_file_that_is_not_made_of_blocks_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(text, "toy.sql")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from ninelives.t", 'select * from "S".t'),
        ("select ninelives.f(ninelives.t.a)", 'select "S".f("S".t.a)'),
        ('insert into ninelives."T" values (1)', 'insert into "S"."T" values (1)'),
        ("select 'ninelives.t', 'it''s ninelives.t'", "select 'ninelives.t', 'it''s ninelives.t'"),
        (r"select e'\' ninelives.t', ninelives.t", r"""select e'\' ninelives.t', "S".t"""),
        ('select "ninelives.t"', 'select "ninelives.t"'),
        ("-- ninelives.t\nselect /* ninelives.t */ 1", "-- ninelives.t\nselect /* ninelives.t */ 1"),
        ("select my_ninelives.t, x.ninelives.t", "select my_ninelives.t, x.ninelives.t"),
        ("select $1::ninelives.t, $2", 'select $1::"S".t, $2'),
        ("as $$ select 'ninelives.a' from ninelives.b $$", "as $$ select 'ninelives.a' from \"S\".b $$"),
        ("as $f$ select ninelives.b('$$') $f$", "as $f$ select \"S\".b('$$') $f$"),
    ],
)
def test_the_prefix_is_replaced_in_code_and_nowhere_else(sql: str, expected: str) -> None:
    assert in_schema(sql, "S") == expected


def test_a_schema_that_contains_the_quotation_mark_of_a_body_does_not_end_the_body() -> None:
    assert in_schema("as $$ select ninelives.f() $$", "a$$b") == 'as $nl1$ select "a$$b".f() $nl1$'


def test_a_quote_in_the_name_is_doubled() -> None:
    assert quote_identifier('a"b') == '"a""b"'
    assert quote_identifier("x" * 63) == f'"{"x" * 63}"'


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "\u00e9" * 32, "\ud800", "pg_temp", "information_schema"])
def test_names_that_postgresql_would_change_or_reserve_are_refused(name: str) -> None:
    with pytest.raises(SettingRefused, match="setting schema"):
        quote_identifier(name)
    with pytest.raises(SettingRefused):
        load(name)


def test_the_shipped_blocks_are_addressed_to_the_schema_and_cannot_be_changed() -> None:
    texts = load("My-App")
    assert set(texts) == set(blocks())
    assert '"My-App".flow_instance' in texts["claim"]
    assert "ninelives.flow_" not in "".join(texts.values())
    with pytest.raises(TypeError):
        texts["claim"] = "select 1"  # type: ignore[index]  # that it is refused is the point


def test_an_override_plants_a_mutant_in_one_block() -> None:
    mutant = load("app", {"claim": "select 1 from ninelives.flow_wake"})
    assert mutant["claim"] == 'select 1 from "app".flow_wake'
    assert {name for name in mutant if mutant[name] != load("app")[name]} == {"claim"}


def test_an_override_of_no_block_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(KeyError, match=r"no SQL block named clame; the names are .*claim"):
        load("app", {"clame": "select 1"})
