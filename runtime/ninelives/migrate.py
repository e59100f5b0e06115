"""Bring a schema to this release's version: numbered files, one at a time, under an advisory lock.

Each file runs in a transaction of its own together with its row in `schema_version`. The transaction takes the
schema's advisory lock first and reads the version afterwards, so any number of processes may migrate at once,
and one that is killed leaves either the whole file applied or nothing of it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from psycopg import errors as pg

from ninelives.errors import NinelivesError, SchemaMissing, SchemaTooNew, SettingRefused, StoreUnavailable
from ninelives.queries import in_schema, load

SERVER_VERSION_MIN = 15
"""The oldest major version of PostgreSQL that the runtime is made for."""

LOCK_WAIT_MS = 1_000
"""One wait for a lock. A longer one would hold up everybody who queues behind it for the same table."""

LOCK_PAUSE_S = 0.1

_FILE_NAME = re.compile(r"(?P<version>\d{4})_(?P<slug>(?:expand|contract)_[a-z0-9]+(?:_[a-z0-9]+)*)\.sql")

_Connection = psycopg.Connection[tuple[Any, ...]]


class MigrationFailed(NinelivesError):
    """The server refused a migration; nothing of that file was kept, the files before it were.

    `name` is the file or the preparation that failed.
    """

    code: ClassVar[str] = "schema.migration_failed"

    def __init__(self, schema: str, name: str, reason: str) -> None:
        super().__init__(f"schema {schema!r}: {name}: {reason}; nothing of it was kept, correct it and run again")
        self.schema = schema
        self.name = name


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file: `version` 1, 2, 3 ..., `slug` as in its name, `sql` with the prefix `ninelives.`."""

    version: int
    slug: str
    sql: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.version:04d}_{self.slug}.sql"


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What `migrate` did: names of the files it applied, those it found applied, the version now reached."""

    applied: tuple[str, ...]
    version: int
    already: tuple[str, ...]


def migrations_folder() -> Path:
    """Return the folder of the migration files: the one inside the wheel, or the checkout's."""
    packaged = Path(__file__).parent / "migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "migrations"


def read_migrations(folder: Path) -> tuple[Migration, ...]:
    """Read the files of `folder` in order.

    Raises SettingRefused for a wrong name, a number that is missing or used twice, or a folder without files.
    """
    found = []
    for path in sorted(folder.glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None:
            raise SettingRefused("migrations", f"{path.name} must be named like 0002_expand_timers.sql")
        found.append(Migration(int(match["version"]), match["slug"], path.read_text(encoding="utf-8")))
    versions = [migration.version for migration in found]
    if not found or versions != list(range(1, len(found) + 1)):
        raise SettingRefused("migrations", f"{folder} must hold files numbered 0001, 0002, ..., has {versions}")
    return tuple(found)


def migrate(
    dsn: str, schema: str = "ninelives", migrations: Path | None = None, *, wait_s: float = 60.0
) -> MigrationReport:
    """Apply the migrations that `schema` lacks, creating the schema first where there is none.

    `migrations` is a folder of files, by default this release's own. Safe to call from many processes at once.
    Waits up to `wait_s` seconds in all for locks that others hold.

    Raises SettingRefused (schema name or dsn that cannot be used, before anything is created), SchemaTooNew,
    StoreUnavailable (no connection, or a lock not obtained in time; says who holds it) and MigrationFailed.
    """
    texts = load(schema)
    files = read_migrations(migrations or migrations_folder())
    deadline = time.monotonic() + wait_s
    applied: list[str] = []
    already: list[str] | None = None
    with _connect(dsn, schema) as connection:
        run = _Run(connection, texts, schema, files, deadline, wait_s)
        while True:
            before, done = run.one_step()
            if already is None:
                already = [file.name for file in before]
            if done is None:
                return MigrationReport(tuple(applied), len(before), tuple(already))
            applied.append(done.name)


def require_schema(target: str | _Connection, schema: str = "ninelives") -> int:
    """Check that `schema` has exactly this release's version, and return it; changes nothing.

    `target` is a dsn or an open connection. Raises SchemaMissing, SchemaTooNew, StoreUnavailable, SettingRefused.
    """
    texts = load(schema)
    if isinstance(target, str):
        with _connect(target, schema) as connection:
            found = _versions(connection, texts, schema)
    else:
        found = _versions(target, texts, schema)
    return check_version(schema, max(found, default=0))


def check_version(schema: str, found: int) -> int:
    """Compare the version `found` in `schema` (0: none) with this release's, and return it.

    Raises SchemaMissing when it is older and SchemaTooNew when it is newer.
    """
    known = len(read_migrations(migrations_folder()))
    if found > known:
        raise SchemaTooNew(schema, found, known)
    if found == 0:
        raise SchemaMissing(schema)
    if found < known:
        raise SchemaMissing(schema, f"is at version {found}, this release needs {known}")
    return found


def lock_key(database: str, schema: str) -> int:
    """Return the advisory key under which `schema` of `database` is migrated.

    The same in every process and release. Negative: session keys are positive, so they never meet.
    """
    digest = blake2b(f"ninelives migrate\0{database}\0{schema}".encode(), digest_size=8).digest()
    return -1 - (int.from_bytes(digest, "big") >> 1)


class _Run:
    """One call of `migrate`: everything that its steps share."""

    def __init__(
        self,
        connection: _Connection,
        texts: Mapping[str, str],
        schema: str,
        files: Sequence[Migration],
        deadline: float,
        wait_s: float,
    ) -> None:
        self._connection = connection
        self._texts = texts
        self._schema = schema
        self._files = files
        self._deadline = deadline
        self._wait_s = wait_s
        self._key = lock_key(_value(connection, texts["migrate_database"]), schema)

    def one_step(self) -> tuple[list[Migration], Migration | None]:
        """Apply the next missing file, if any: (those found applied, the one applied now)."""
        while True:
            try:
                return self._attempt()
            except (pg.LockNotAvailable, pg.DeadlockDetected):
                if time.monotonic() >= self._deadline:
                    raise StoreUnavailable(self._explain_wait()) from None
            time.sleep(LOCK_PAUSE_S)

    def _attempt(self) -> tuple[list[Migration], Migration | None]:
        name = "preparation"
        try:
            with self._connection.transaction():
                self._lock()
                applied = self._applied()
                if len(applied) == len(self._files):
                    return applied, None
                if not applied:
                    self._create()
                file = self._files[len(applied)]
                name = file.name
                self._connection.execute(in_schema(file.sql, self._schema).encode())
                self._connection.execute(self._texts["schema_version_add"].encode(), (file.version, file.slug))
                return applied, file
        except (psycopg.OperationalError, pg.UntranslatableCharacter):
            raise
        except psycopg.Error as error:
            raise MigrationFailed(self._schema, name, _reason(error)) from error

    def _lock(self) -> None:
        with suppress(pg.InvalidParameterValue), self._connection.transaction():
            self._connection.execute(self._texts["migrate_watch_client"].encode())
        self._connection.execute(self._texts["migrate_settings"].encode(), (str(LOCK_WAIT_MS),))
        self._connection.execute(self._texts["migrate_lock"].encode(), (self._key,))

    def _applied(self) -> list[Migration]:
        found = _versions(self._connection, self._texts, self._schema)
        if max(found, default=0) > len(self._files):
            raise SchemaTooNew(self._schema, max(found), len(self._files))
        applied = list(self._files[: len(found)])
        expected = {file.version: file.slug for file in applied}
        if found != expected:
            raise SettingRefused(
                "schema",
                f"{self._schema!r} has had the migrations {found}, this release has {expected};"
                " it belongs to another line of releases, use another schema",
            )
        return applied

    def _create(self) -> None:
        if not _value(self._connection, self._texts["schema_exists"], self._schema):
            statement = _value(self._connection, self._texts["schema_create_text"], self._schema)
            self._connection.execute(statement.encode())
        if not _value(self._connection, self._texts["schema_is_versioned"], self._schema):
            self._connection.execute(self._texts["schema_version_create"].encode())

    def _explain_wait(self) -> str:
        rows = self._connection.execute(self._texts["migrate_blockers"].encode(), (self._key, self._schema)).fetchall()
        holders = [f"pid {pid} ({name or 'no name'}, {state}, {age:.0f} s)" for pid, name, state, age in rows]
        return (
            f"schema {self._schema!r} could not be migrated: waited {self._wait_s:g} s for locks that are held by"
            f" {', '.join(holders) or 'a session that has just ended'}; let it finish or end it, then run again"
        )


def _versions(connection: _Connection, texts: Mapping[str, str], schema: str) -> dict[int, str]:
    try:
        if not _value(connection, texts["schema_is_versioned"], schema):
            return {}
        return dict(_raw(connection).execute(texts["schema_versions"].encode()).fetchall())
    except pg.InsufficientPrivilege as error:
        raise StoreUnavailable(
            f"schema {schema!r} may not be read ({_reason(error)}); grant usage on it to this role"
        ) from error


def _value(connection: _Connection, text: str, *values: Any) -> Any:
    row = _raw(connection).execute(text.encode(), values or None).fetchone()
    assert row is not None, "a query without a filter returns one row"
    return row[0]


def _raw(connection: _Connection) -> psycopg.RawCursor[tuple[Any, ...]]:
    return psycopg.RawCursor(connection)


@contextmanager
def _connect(dsn: str, schema: str) -> Iterator[_Connection]:
    """Connect for migrating, and turn what goes wrong with the connection into this package's errors."""
    try:
        with psycopg.connect(
            dsn.strip(),
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            client_encoding="utf8",
            application_name="ninelives migrate",
            # A pooler may hand each transaction to another server connection.
            prepare_threshold=None,
        ) as connection:
            major = connection.info.server_version // 10_000
            if major < SERVER_VERSION_MIN:
                raise SettingRefused("dsn", f"PostgreSQL {major} is too old; use {SERVER_VERSION_MIN} or newer")
            yield connection
    except pg.UntranslatableCharacter as error:
        raise SettingRefused(
            "schema", f"{schema!r} cannot be written in this database's encoding; choose another name"
        ) from error
    except psycopg.ProgrammingError as error:
        raise SettingRefused("dsn", f"cannot be used: {_reason(error)}") from error
    except psycopg.OperationalError as error:
        raise StoreUnavailable(
            f"the database did not answer: {_reason(error)}; check the dsn and that the server is up, then retry"
        ) from error


def _reason(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error)).split())
