"""A user's own server: looked at, named when it cannot be used, refused when it may lose commits."""

from __future__ import annotations

import socket

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from ninelives_rig.cluster import dsn as dsn_module
from ninelives_rig.cluster.dsn import look_at
from ninelives_rig.cluster.errors import (
    ClusterError,
    DatabaseMissing,
    DsnMalformed,
    DurabilityWeak,
    PasswordRefused,
    ServerReadOnly,
    ServerTooOld,
    ServerUnreachable,
    SettingRefused,
    Unavailable,
)
from ninelives_rig.cluster.ladder import open_server
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory

SECRET = "s3cr3t-w0rd"


def refusal(dsn: str, expected: type[ClusterError], timeout_s: float = 5.0) -> str:
    with pytest.raises(expected) as refused:
        look_at(dsn, timeout_s=timeout_s)
    text = str(refused.value)
    assert SECRET not in text
    assert refused.value.code.startswith("cluster.")
    return text


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "   ",
        f"password={SECRET} nonsense",
        f"postgresql://u:p@{SECRET}@host/d",
        f"postgresql://u:p@x:{SECRET}@host/d",
        f"mysql://u:{SECRET}@host/d",
        f"host=h port={SECRET}",
    ],
)
def test_a_malformed_dsn_is_refused_without_quoting_it(dsn: str) -> None:
    assert "postgresql://USER:PASSWORD@HOST" in refusal(dsn, DsnMalformed)


def test_a_server_that_is_down_is_named() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        told = refusal(f"host=127.0.0.1 port={port} user=u dbname=d password={SECRET}", ServerUnreachable)
    assert f"port {port}" in told
    assert "Is the server started" in told


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        told = refusal(f"host=127.0.0.1 port={port} user=u password={SECRET}", ServerUnreachable, timeout_s=1)
    assert "timeout" in told


@pytest.mark.postgres
def test_a_wrong_password_user_or_database_is_named(postgres_server: PostgresServer) -> None:
    tcp = postgres_server.dsn_tcp
    refusal(make_conninfo(tcp, password=SECRET), PasswordRefused)
    refusal(make_conninfo(tcp, user="stranger", password=SECRET), PasswordRefused)
    told = refusal(make_conninfo(postgres_server.dsn, dbname="missing", password=SECRET), DatabaseMissing)
    assert "createdb" in told


@pytest.mark.postgres
def test_weak_durability_is_refused_or_loudly_marked(database_dsn: str) -> None:
    weak = make_conninfo(database_dsn, options="-c synchronous_commit=off", password=SECRET)
    assert "loses the last commits" in refusal(weak, DurabilityWeak)
    report = look_at(weak, allow_weak=True)
    assert report.as_dict()["synchronous_commit"] == "off"
    assert len(report.weak) == 1
    assert report.lines()[-1].startswith("WEAK DURABILITY: synchronous_commit is off")
    sound = look_at(database_dsn)
    assert (sound.weak, sound.as_dict()["weak"], len(sound.lines())) == ((), [], 1)


@pytest.mark.postgres
def test_a_server_that_cannot_be_written_is_refused(database_dsn: str) -> None:
    told = refusal(make_conninfo(database_dsn, options="-c default_transaction_read_only=on"), ServerReadOnly)
    assert "read-only" in told
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        connection.execute("create role reader login")
        try:
            told = refusal(make_conninfo(database_dsn, user="reader"), ServerReadOnly)
        finally:
            connection.execute("drop role reader")
    assert "grant create" in told


@pytest.mark.postgres
def test_an_old_server_is_refused(database_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dsn_module, "OLDEST", 990000)
    assert "15 or newer" in refusal(database_dsn, ServerTooOld)


@pytest.mark.postgres
def test_the_ladder_takes_a_given_server_and_never_stops_it(
    run: RunDirectory, postgres_server: PostgresServer, database_dsn: str
) -> None:
    with open_server(run, dsn=database_dsn) as opened:
        assert (opened.kind, opened.server, opened.dsn) == ("dsn", None, database_dsn)
    assert postgres_server.running


@pytest.mark.postgres
def test_the_ladder_starts_the_version_asked_for_and_stops_it(run: RunDirectory) -> None:
    with open_server(run, postgres="16", keep=True) as opened:
        assert opened.kind == "embedded"
        assert opened.report.server_version.startswith("16.")
        assert opened.server is not None
    assert not opened.server.running
    run.close()
    assert (opened.server.data / "PG_VERSION").exists()


def test_the_ladder_refuses_a_wrong_choice(run: RunDirectory) -> None:
    with pytest.raises(SettingRefused, match="exclude"), open_server(run, dsn="host=x", postgres="16"):
        pass
    with pytest.raises(SettingRefused, match="16, 18, docker"), open_server(run, postgres="9"):
        pass


def test_docker_works_or_says_why_not(run: RunDirectory) -> None:
    try:
        with open_server(run, postgres="docker") as opened:
            assert opened.kind == "docker"
            assert opened.report.weak == ()
    except Unavailable as reason:
        assert "embedded" in str(reason) or "Docker" in str(reason)
        pytest.skip(str(reason))
