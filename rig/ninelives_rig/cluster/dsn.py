"""Look at a server before trusting it: can it be reached, is it new enough, does it keep what it acknowledges."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ninelives_rig.cluster.errors import (
    ClusterError,
    DatabaseMissing,
    DsnMalformed,
    DurabilityWeak,
    PasswordRefused,
    ServerReadOnly,
    ServerTooOld,
    ServerUnreachable,
)

OLDEST = 150000
_LOCK_PATIENCE = "10s"

_LOOK = """
select current_setting('server_version_num')::int, current_setting('server_version'),
       current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
       current_setting('synchronous_standby_names'), current_setting('data_checksums'),
       pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on',
       has_database_privilege(current_database(), 'create'), current_database(), current_user
"""


@dataclass(frozen=True, slots=True)
class DurabilityReport:
    """What a server promises about acknowledged commits. `weak` lists why it promises less than it must."""

    server_version: str
    server_version_num: int
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    synchronous_standby_names: str
    data_checksums: str
    in_recovery: bool
    weak: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for manifests and --json."""
        return asdict(self) | {"weak": list(self.weak)}

    def lines(self) -> list[str]:
        """Return the report for people; what is weak stands last and loud."""
        told = [
            f"PostgreSQL {self.server_version}: fsync {self.fsync}, synchronous_commit {self.synchronous_commit}, "
            f"full_page_writes {self.full_page_writes}, data checksums {self.data_checksums}"
        ]
        return told + [f"WEAK DURABILITY: {reason}" for reason in self.weak]


def look_at(dsn: str, *, allow_weak: bool = False, timeout_s: float = 5.0) -> DurabilityReport:
    """Connect within `timeout_s`, check the server, and return what it promises.

    A server that may lose acknowledged commits is refused unless `allow_weak`; then the report is marked.
    Raises DsnMalformed, ServerUnreachable, PasswordRefused, DatabaseMissing, ServerTooOld, ServerReadOnly or
    DurabilityWeak. No message ever contains the password.
    """
    parts = _parse(dsn)
    place = described(parts)
    try:
        waiting_s = max(2, round(timeout_s))
        with psycopg.connect(make_conninfo(dsn, connect_timeout=waiting_s), autocommit=True) as connection:
            connection.execute(f"set statement_timeout = {int(timeout_s * 1000)}")
            number = connection.info.server_version
            if number < OLDEST:
                raise ServerTooOld(
                    f"{place} runs PostgreSQL {number // 10000}: ninelives needs 15 or newer; "
                    "upgrade it, or leave --dsn away to use the embedded server"
                )
            row = connection.execute(_LOOK).fetchone()
    except psycopg.Error as error:
        raise _named(error, place, parts, timeout_s) from None
    assert row is not None
    report = _judge(row)
    _refuse_unusable(row, place)
    if report.weak and not allow_weak:
        raise DurabilityWeak(
            f"{place} may lose acknowledged commits: {'; '.join(report.weak)}. Change the settings, or allow weak "
            "durability explicitly (the report is then marked)"
        )
    return report


def impatient(dsn: str) -> str:
    """Return the DSN for a session that waits for nobody's lock longer than some seconds (LockNotAvailable)."""
    options = conninfo_to_dict(dsn).get("options") or os.environ.get("PGOPTIONS", "")
    return make_conninfo(dsn, options=f"{options} -c lock_timeout={_LOCK_PATIENCE}".strip())


def described(parts: dict[str, Any]) -> str:
    """Say which server is meant, in words that hold no secret."""
    host = parts.get("host") or parts.get("hostaddr") or "the default socket"
    port = parts.get("port") or 5432
    user, database = parts.get("user") or "the default user", parts.get("dbname") or "of the user's name"
    return f"{user} at {host}, port {port}, database {database}"


def _parse(dsn: str) -> dict[str, Any]:
    # libpq's own complaint may quote a piece of the password, so it is not passed on.
    how = (
        "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with @ : / % in the password as %40 %3A %2F %25, "
        "or host=HOST port=PORT user=USER dbname=DATABASE password='...'"
    )
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        raise DsnMalformed(f"the DSN cannot be read: {how}") from None
    if not dsn.strip() or not parts:
        raise DsnMalformed(f"the DSN is empty: {how}")
    if "\0" in dsn or not re.fullmatch(r"[0-9]{0,5}(,[0-9]{0,5})*", str(parts.get("port") or "")):
        raise DsnMalformed(f"the port of the DSN is not a number: {how}")
    if "@" in str(parts.get("host") or ""):
        raise DsnMalformed(f"the host of the DSN contains an @: {how}")
    return parts


def _judge(row: tuple[Any, ...]) -> DurabilityReport:
    number, version, commit, fsync, pages, standbys, checksums, recovery = row[:8]
    weak = []
    if fsync != "on":
        weak.append("fsync is off: a crash of the machine may lose commits or corrupt the data")
    if commit == "off":
        weak.append("synchronous_commit is off: a crash of the server loses the last commits")
    if commit in ("local", "remote_write") and standbys:
        weak.append(f"synchronous_commit is {commit}: a failover to {standbys} may lose the last commits")
    if pages != "on":
        weak.append("full_page_writes is off: a crash in the middle of a page may corrupt it")
    return DurabilityReport(version, number, commit, fsync, pages, standbys, checksums, bool(recovery), tuple(weak))


def _refuse_unusable(row: tuple[Any, ...], place: str) -> None:
    recovery, read_only, may_create, database, user = row[7:]
    if recovery:
        raise ServerReadOnly(f"{place} is a standby: give the DSN of its primary")
    if read_only:
        raise ServerReadOnly(
            f"{place} opens read-only sessions: set default_transaction_read_only = off for user {user}"
        )
    if not may_create:
        raise ServerReadOnly(
            f"user {user} may not create a schema in database {database}: "
            f'grant create on database "{database}" to "{user}"'
        )


_NAMED: list[tuple[str, Callable[[str], ClusterError]]] = [
    (
        r"password|authentication failed|no pg_hba\.conf entry|role .* does not exist|not permitted to log in",
        lambda text: PasswordRefused(f"{text}. Check user, password and pg_hba.conf, or try it with psql"),
    ),
    (
        r"database .* does not exist",
        lambda text: DatabaseMissing(f"{text}. Create it (createdb NAME), or name another database"),
    ),
]


def _named(error: psycopg.Error, place: str, parts: dict[str, Any], timeout_s: float) -> ClusterError:
    # libpq's own advice is left out: what follows is ours.
    said = " ".join(re.sub(r"Is the server running[^?]*\?", "", str(error)).split())
    for secret in ("password", "sslpassword", "passfile"):
        if parts.get(secret):
            said = said.replace(str(parts[secret]), "***")
    text = f"{place}: {said}"
    for pattern, make in _NAMED:
        if re.search(pattern, said):
            return make(text)
    return ServerUnreachable(
        f"no answer from {text} (waited up to {timeout_s:.0f} s). Is the server started, do host and port match, "
        "is a firewall between? Leave --dsn away to use the embedded server"
    )
