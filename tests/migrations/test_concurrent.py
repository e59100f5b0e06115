"""Many processes migrate one schema at once, and some of them are killed while they do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
import pytest
from tests.migrations.catalog import describe_schema, versions

from ninelives.errors import StoreUnavailable
from ninelives.migrate import lock_key, migrate, migrations_folder, read_migrations

pytestmark = [pytest.mark.postgres, pytest.mark.chaos]

PROCESSES = 8
ROUNDS = 20
BOUND_S = 60.0
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event = %s"

# Its second file waits for as long as the gate is shut, in the middle of its work.
GATED = """
create table ninelives.half_way (x integer);
select pg_sleep(case when to_regclass('public.gate') is not null then 3600 else 0 end);
create table ninelives.other_half (x integer);
"""

_SPAWN = multiprocessing.get_context("spawn")


def migrate_each_round(dsn: str, barrier: Barrier, failures: str) -> None:
    try:
        for number in range(ROUNDS):
            barrier.wait(BOUND_S)
            migrate(dsn, f"round_{number}")
    except BaseException as error:
        barrier.abort()
        Path(failures, str(os.getpid())).write_text(repr(error))
        raise


def migrate_gated(dsn: str, folder: str) -> None:
    migrate(dsn, migrations=Path(folder))


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    (tmp_path / "0001_expand_thing.sql").write_text("create table ninelives.thing (x integer);")
    (tmp_path / "0002_expand_half_way.sql").write_text(GATED)
    return tmp_path


def wait_until_asleep(connection: psycopg.Connection, event: str, count: int = 1) -> None:
    """Return once the server itself says that `count` backends of this database wait for `event`."""
    deadline = time.monotonic() + BOUND_S
    while connection.execute(WAITING, [event]).fetchone() != (count,):
        assert time.monotonic() < deadline, f"no backend came to wait for {event}"
        time.sleep(0.01)


def test_eight_processes_at_once_leave_one_version_row_and_the_schema_of_a_single_run(
    database_dsn: str, tmp_path: Path
) -> None:
    barrier = _SPAWN.Barrier(PROCESSES)
    arguments = (database_dsn, barrier, str(tmp_path))
    workers = [_SPAWN.Process(target=migrate_each_round, args=arguments, daemon=True) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(BOUND_S)
    failures = [path.read_text() for path in tmp_path.iterdir()]
    assert ([worker.exitcode for worker in workers], failures) == ([0] * PROCESSES, [])

    migrate(database_dsn, "alone")
    alone = describe_schema(database_dsn, "alone")
    every = list(range(1, len(read_migrations(migrations_folder())) + 1))
    for number in range(ROUNDS):
        assert versions(database_dsn, f"round_{number}") == every
        assert describe_schema(database_dsn, f"round_{number}") == alone


def test_a_migration_killed_half_way_is_finished_by_the_next(database_dsn: str, gated: Path) -> None:
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        connection.execute("create table public.gate ()")
        victim = _SPAWN.Process(target=migrate_gated, args=(database_dsn, str(gated)), daemon=True)
        victim.start()
        wait_until_asleep(connection, "PgSleep")
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join(BOUND_S)
        assert victim.exitcode == -signal.SIGKILL
        connection.execute("drop table public.gate")

    # The dead process's statement would sleep for an hour: the server must have noticed the death by itself.
    began = time.monotonic()
    report = migrate(database_dsn, migrations=gated)
    assert time.monotonic() - began < 15
    assert report.already == ("0001_expand_thing.sql",)
    assert report.applied == ("0002_expand_half_way.sql",)
    assert versions(database_dsn, "ninelives") == [1, 2]
    tables = [line for line in describe_schema(database_dsn, "ninelives") if line.startswith("table ")]
    assert tables == ["table half_way ()", "table other_half ()", "table schema_version ()", "table thing ()"]


def test_a_killed_process_that_holds_the_lock_blocks_a_waiting_one_only_briefly(database_dsn: str, gated: Path) -> None:
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        connection.execute("create table public.gate ()")
        victim = _SPAWN.Process(target=migrate_gated, args=(database_dsn, str(gated)), daemon=True)
        victim.start()
        wait_until_asleep(connection, "PgSleep")
        done: list[int] = []
        waiter = threading.Thread(target=lambda: done.append(migrate(database_dsn, migrations=gated).version))
        waiter.start()
        wait_until_asleep(connection, "advisory")
        connection.execute("drop table public.gate")
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join(BOUND_S)
        waiter.join(15)
    assert done == [2]


def test_a_lock_that_is_never_given_up_is_reported_with_its_holder(database_dsn: str) -> None:
    with psycopg.connect(database_dsn, application_name="somebody else") as holder:
        name = holder.execute("select current_database()").fetchone()
        assert name is not None
        holder.execute("select pg_advisory_xact_lock(%s)", [lock_key(name[0], "ninelives")])
        with pytest.raises(StoreUnavailable, match=r"waited 1.5 s .* held by pid \d+ \(somebody else, idle in"):
            migrate(database_dsn, wait_s=1.5)
    assert migrate(database_dsn).applied


def test_a_table_lock_that_is_never_given_up_is_reported_with_its_holder(database_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "0001_expand_thing.sql").write_text("create table ninelives.thing (x integer);")
    migrate(database_dsn, migrations=tmp_path)
    (tmp_path / "0002_expand_note.sql").write_text("alter table ninelives.thing add column note text;")
    with psycopg.connect(database_dsn, application_name="long report") as holder:
        holder.execute("select * from ninelives.thing")
        with pytest.raises(StoreUnavailable, match=r"held by pid \d+ \(long report, idle in transaction"):
            migrate(database_dsn, migrations=tmp_path, wait_s=0.5)
    assert migrate(database_dsn, migrations=tmp_path).applied == ("0002_expand_note.sql",)
