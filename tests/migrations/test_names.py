"""Schema names that are legal but unfriendly work and stay apart; the others are refused before anything exists."""

from __future__ import annotations

import pytest
from tests.migrations.catalog import describe_schema, schemas, versions

from ninelives.errors import SettingRefused
from ninelives.migrate import migrate, require_schema

pytestmark = pytest.mark.postgres

LEGAL = [
    "MyApp",
    "myapp",
    "my-app",
    "select",
    'a"b',
    "a'b",
    "100%",
    "100%s",
    "%(x)s",
    "a$$b",
    "a b.c",
    "back\\slash",
    "{x}",
    "$1",
    "-- no",
    "h\u00e9",
    "public",
    "x" * 63,
    "\u00e9" * 31 + "x",
]
REFUSED = ["", "x" * 64, "\u00e9" * 32, "nul\0byte", "pg_mine", "information_schema", "lone\ud800"]


def test_every_legal_name_works_and_they_stay_apart_in_one_database(database_dsn: str) -> None:
    for name in LEGAL:
        assert migrate(database_dsn, name).applied, name
    assert schemas(database_dsn) | {"public"} == set(LEGAL)
    for name in LEGAL:
        assert require_schema(database_dsn, name) == versions(database_dsn, name)[-1], name
        assert migrate(database_dsn, name).applied == (), name
    shapes = {len(describe_schema(database_dsn, name)) for name in LEGAL}
    assert len(shapes) == 1
    assert shapes.pop() > 50


def test_schemas_that_differ_only_in_case_are_two(database_dsn: str) -> None:
    migrate(database_dsn, "app")
    assert migrate(database_dsn, "App").applied
    assert schemas(database_dsn) == {"app", "App"}


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_an_impossible_name_is_refused_before_anything_is_created(database_dsn: str, name: str) -> None:
    for refusing in (migrate, require_schema):
        with pytest.raises(SettingRefused, match=r"setting schema: .*; choose another"):
            refusing(database_dsn, name)
    assert schemas(database_dsn) == set()


def test_an_impossible_name_is_refused_without_a_server() -> None:
    with pytest.raises(SettingRefused, match="64 bytes"):
        migrate("host=127.0.0.1 port=1", "x" * 64)
