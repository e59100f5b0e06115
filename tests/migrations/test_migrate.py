"""Migrating: once, again, forwards only, and what each refusal says."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.migrations.catalog import describe_schema, schemas, versions

from ninelives.errors import SchemaMissing, SchemaTooNew, SettingRefused, StoreUnavailable
from ninelives.migrate import (
    MigrationFailed,
    check_version,
    lock_key,
    migrate,
    migrations_folder,
    read_migrations,
    require_schema,
)

pytestmark = pytest.mark.postgres

FIRST = "create table ninelives.thing (thing_id integer primary key);"
SECOND = "alter table ninelives.thing add column note text;"


def folder(at: Path, *files: tuple[str, str]) -> Path:
    at.mkdir(exist_ok=True)
    for name, text in files:
        (at / name).write_text(text)
    return at


@pytest.fixture
def two_files(tmp_path: Path) -> Path:
    return folder(tmp_path / "two", ("0001_expand_thing.sql", FIRST), ("0002_expand_note.sql", SECOND))


@pytest.fixture
def one_file(tmp_path: Path) -> Path:
    return folder(tmp_path / "one", ("0001_expand_thing.sql", FIRST))


def test_a_fresh_database_gets_every_migration_of_this_release(database_dsn: str) -> None:
    report = migrate(database_dsn)
    names = tuple(migration.name for migration in read_migrations(migrations_folder()))
    assert (report.applied, report.version, report.already) == (names, len(names), ())
    assert versions(database_dsn, "ninelives") == list(range(1, len(names) + 1))
    assert require_schema(database_dsn) == len(names)


def test_migrating_again_changes_nothing(database_dsn: str) -> None:
    migrate(database_dsn)
    before = describe_schema(database_dsn, "ninelives")
    report = migrate(database_dsn)
    assert report.applied == ()
    assert report.already == tuple(migration.name for migration in read_migrations(migrations_folder()))
    assert describe_schema(database_dsn, "ninelives") == before


def test_a_newer_release_applies_only_what_is_missing(database_dsn: str, one_file: Path, two_files: Path) -> None:
    migrate(database_dsn, migrations=one_file)
    report = migrate(database_dsn, migrations=two_files)
    assert report.already == ("0001_expand_thing.sql",)
    assert report.applied == ("0002_expand_note.sql",)
    assert report.version == 2


def test_older_code_refuses_a_newer_schema_and_names_both_versions(
    database_dsn: str, one_file: Path, two_files: Path
) -> None:
    migrate(database_dsn, migrations=two_files)
    before = describe_schema(database_dsn, "ninelives")
    with pytest.raises(SchemaTooNew, match="at version 2, this release knows up to 1; upgrade") as caught:
        migrate(database_dsn, migrations=one_file)
    assert (caught.value.found, caught.value.known) == (2, 1)
    assert describe_schema(database_dsn, "ninelives") == before


def test_a_node_of_older_code_refuses_a_newer_schema(database_dsn: str) -> None:
    known = migrate(database_dsn).version
    with psycopg.connect(database_dsn) as connection:
        connection.execute(
            "insert into ninelives.schema_version (version, slug) values (%s, 'expand_later')", [known + 1]
        )
    with pytest.raises(SchemaTooNew, match=f"at version {known + 1}, this release knows up to {known}"):
        require_schema(database_dsn)


def test_a_missing_schema_is_refused_with_the_command_to_run(database_dsn: str) -> None:
    with pytest.raises(SchemaMissing, match="'ninelives' does not exist; run `ninelives migrate`"):
        require_schema(database_dsn)
    assert schemas(database_dsn) == set()


def test_a_schema_that_is_behind_is_refused_with_the_command_to_run() -> None:
    known = len(read_migrations(migrations_folder()))
    assert check_version("ninelives", known) == known
    with pytest.raises(SchemaMissing):
        check_version("ninelives", 0)
    with pytest.raises(SchemaTooNew):
        check_version("ninelives", known + 1)


def test_require_schema_takes_an_open_connection_and_leaves_it_usable(database_dsn: str) -> None:
    migrate(database_dsn, "other")
    with psycopg.connect(database_dsn) as connection:
        assert require_schema(connection, "other") == len(read_migrations(migrations_folder()))
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_failing_migration_keeps_the_files_before_it_and_nothing_of_itself(
    database_dsn: str, one_file: Path, tmp_path: Path
) -> None:
    text = "create table ninelives.half (x int); select 1/0;"
    bad = folder(tmp_path / "bad", ("0001_expand_thing.sql", FIRST), ("0002_expand_half.sql", text))
    with pytest.raises(MigrationFailed, match=r"0002_expand_half.sql: division by zero; nothing of it was kept"):
        migrate(database_dsn, migrations=bad)
    assert versions(database_dsn, "ninelives") == [1]
    assert migrate(database_dsn, "other", one_file).version == 1
    assert [line for line in describe_schema(database_dsn, "ninelives") if "half" in line] == []


def test_an_unqualified_table_name_in_a_migration_is_an_error(database_dsn: str, tmp_path: Path) -> None:
    stray = folder(tmp_path / "stray", ("0001_expand_stray.sql", "create table stray (x int);"))
    with pytest.raises(MigrationFailed, match="no schema has been selected"):
        migrate(database_dsn, migrations=stray)
    assert schemas(database_dsn) == set()


def test_a_schema_of_another_line_of_releases_is_refused(database_dsn: str, one_file: Path, tmp_path: Path) -> None:
    other = folder(tmp_path / "other", ("0001_expand_other.sql", FIRST), ("0002_expand_note.sql", SECOND))
    migrate(database_dsn, migrations=one_file)
    with pytest.raises(SettingRefused, match="another line of releases"):
        migrate(database_dsn, migrations=other)
    assert versions(database_dsn, "ninelives") == [1]


@pytest.mark.parametrize(
    "names",
    [[], ["0002_expand_b.sql"], ["0001_expand_a.sql", "0001_expand_b.sql"], ["1_expand_a.sql"], ["0001_a.sql"]],
    ids=["none", "gap", "twice", "short-number", "no-kind"],
)
def test_a_folder_that_is_not_numbered_from_one_is_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(SettingRefused, match="migrations"):
        read_migrations(folder(tmp_path / "files", *((name, FIRST) for name in names)))


def test_a_wrong_dsn_is_refused_and_a_server_that_is_down_is_reported(database_dsn: str) -> None:
    with pytest.raises(SettingRefused, match="setting dsn"):
        migrate("this is no dsn")
    with pytest.raises(StoreUnavailable, match="check the dsn"):
        migrate("host=127.0.0.1 port=1 dbname=x connect_timeout=2")
    with pytest.raises(StoreUnavailable, match="does not exist"):
        migrate(database_dsn + " dbname=no_such_database")


def test_blank_space_around_the_dsn_does_no_harm(database_dsn: str) -> None:
    assert migrate(f" {database_dsn} \n").version == len(read_migrations(migrations_folder()))


def test_the_lock_key_is_stable_negative_and_differs_by_case_and_database() -> None:
    keys = {lock_key(database, schema) for database in ("a", "b") for schema in ("app", "App", "ninelives")}
    assert len(keys) == 6
    assert all(-(2**63) <= key < 0 for key in keys)
    assert lock_key("ninelives", "ninelives") == lock_key("ninelives", "ninelives")
