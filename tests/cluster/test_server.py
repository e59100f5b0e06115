"""The life of our own server: start, stop, crash, restart; ports; settings; who it runs as."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from tests.cluster.helpers import wait_until

from ninelives_rig.cluster import server as server_module
from ninelives_rig.cluster.dsn import look_at
from ninelives_rig.cluster.errors import (
    DiskFull,
    NotOurServer,
    PortBusy,
    RunDirectoryRefused,
    ServerFailed,
    SettingRefused,
    StaleDirectory,
)
from ninelives_rig.cluster.processes import postgres_processes
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.identity import ProcessIdentity, wait_dead
from ninelives_rig.rundir import RunDirectory, user_root

pytestmark = pytest.mark.postgres

SMALL = {"shared_buffers": "16MB", "min_dynamic_shared_memory": "0"}


def values(dsn: str, query: str) -> list[object]:
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(query)]


@pytest.mark.parametrize("version", ["16", "18"])
def test_what_was_committed_survives_crash_stop_and_restart(run: RunDirectory, version: str) -> None:
    with PostgresServer.create(run, version=version, options=SMALL) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("create table kept (n int)")
            connection.execute("insert into kept values (1)")
        open_transaction = psycopg.connect(server.dsn)
        open_transaction.execute("insert into kept values (2)")
        backend = ProcessIdentity.of(open_transaction.info.backend_pid)
        first, dsn = server.postmaster, server.dsn

        proof = server.crash()

        assert (proof.postmaster, proof.exit_code) == (first, -signal.SIGKILL)
        assert backend in proof.backends
        assert not server.running
        assert postgres_processes(server.data) == []
        with pytest.raises(psycopg.OperationalError):
            open_transaction.execute("select 1")
        open_transaction.close()
        server.start()
        assert server.dsn == dsn
        assert server.postmaster != first
        assert values(dsn, "select n from kept") == [1]
        server.restart()
        assert values(dsn, "select n from kept") == [1]
        facts = values(dsn, "select current_setting('server_version_num')::int / 10000")
        assert facts == [int(version)]
    assert not server.running


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server of this file's own; each test that uses it leaves it running."""
    with RunDirectory.create() as run, PostgresServer.create(run) as server:
        yield server


def segment(server: PostgresServer) -> str:
    """The id of the server's System V segment, as postmaster.pid tells it."""
    return (server.data / "postmaster.pid").read_text().splitlines()[6].split()[1]


def existing_segments() -> set[str]:
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


def test_a_frozen_server_can_be_stopped(own_server: PostgresServer) -> None:
    processes = own_server.processes()
    for process in processes:
        process.kill(signal.SIGSTOP)
    own_server.stop()
    assert wait_dead(processes, 0) == []
    own_server.stop()
    own_server.start()


def test_a_crash_without_a_restart_leaves_no_shared_memory(own_server: PostgresServer) -> None:
    left = segment(own_server)
    assert own_server.crash().backends
    assert left in existing_segments()
    own_server.close()
    assert left not in existing_segments()
    with pytest.raises(ServerFailed, match="no running server"):
        own_server.crash()
    own_server.start()


def test_the_thread_that_started_a_server_may_end(own_server: PostgresServer) -> None:
    own_server.stop()
    thread = threading.Thread(target=own_server.start)
    thread.start()
    thread.join()
    # The kernel would signal the server when its thread's task is gone from /proc.
    task = Path(f"/proc/self/task/{thread.native_id}")
    wait_until("the thread is gone", lambda: not task.exists())
    assert values(own_server.dsn, "select pg_sleep(0.05) is null") == [False]
    assert own_server.running


def test_durable_by_default(own_server: PostgresServer) -> None:
    report = look_at(own_server.dsn)
    assert (report.fsync, report.synchronous_commit, report.full_page_writes) == ("on", "on", "on")
    assert (report.data_checksums, report.weak) == ("on", ())
    wanted = {"client_connection_check_interval": "100ms", "max_connections": "300", "max_wal_size": "4GB"}
    for name, value in wanted.items():
        assert values(own_server.dsn, f"select current_setting('{name}')") == [value]
    locale = values(own_server.dsn, "select datcollate || pg_encoding_to_char(encoding) from pg_database")
    assert set(locale) == {"C.UTF-8UTF8"}


def test_settings_change_at_reload(own_server: PostgresServer) -> None:
    own_server.configure({"fsync": False, "application_name": "it's \\ quoted"})
    own_server.reload()
    wait_until("fsync is off", lambda: values(own_server.dsn, "select current_setting('fsync')") == ["off"])
    assert values(own_server.dsn, "select current_setting('application_name')") == ["it's \\ quoted"]
    assert "fsync is off" in look_at(own_server.dsn, allow_weak=True).weak[0]
    for name, value in (("fsync'", "on"), ("fsync", "on\nport = 1")):
        with pytest.raises(SettingRefused):
            own_server.configure({name: value})
    own_server.configure({"fsync": True, "application_name": ""})
    own_server.restart()
    assert look_at(own_server.dsn).weak == ()


def test_loopback_asks_for_the_password_and_the_socket_is_private(postgres_server: PostgresServer) -> None:
    assert values(postgres_server.dsn_tcp, "select 1") == [1]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres_server.dsn_tcp + "x")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"host=127.0.0.1 port={postgres_server.port} user=postgres dbname=postgres passfile=/x")
    sockets = next(part for part in postgres_server.dsn.split() if part.startswith("host="))
    assert Path(sockets.removeprefix("host=")).stat().st_mode & 0o077 == 0


def test_the_server_runs_as_an_unprivileged_user(postgres_server: PostgresServer) -> None:
    assert postgres_server.postmaster is not None
    users = {Path(f"/proc/{each.pid}").stat().st_uid for each in postgres_server.processes()}
    expected = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
    assert users == {expected}
    status = Path(f"/proc/{postgres_server.postmaster.pid}/status").read_text()
    groups = next(line.split()[1:] for line in status.splitlines() if line.startswith("Groups:"))
    assert os.geteuid() != 0 or groups == []
    assert postgres_server.data.stat().st_uid == expected


def test_two_servers_side_by_side(own_server: PostgresServer, postgres_server: PostgresServer) -> None:
    assert own_server.port != postgres_server.port
    assert own_server.system_identifier != postgres_server.system_identifier
    identifier = values(own_server.dsn, "select system_identifier from pg_control_system()")
    assert identifier == [own_server.system_identifier]
    assert set(own_server.processes()).isdisjoint(postgres_server.processes())
    before = postgres_server.postmaster
    own_server.crash()
    assert postgres_server.running
    assert postgres_server.postmaster == before
    assert values(postgres_server.dsn, "select 1") == [1]
    own_server.start()


def test_a_lost_race_for_a_port_is_repeated_and_a_fixed_busy_port_is_named(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = taken.getsockname()[1]
        answers = iter([busy, busy])
        free = server_module.free_port
        monkeypatch.setattr(server_module, "free_port", lambda: next(answers, None) or free())
        server = PostgresServer.create(run, options=SMALL)
        with server:
            assert server.port != busy
            assert next(answers, None) is None
        server.port = busy
        with pytest.raises(PortBusy, match=f"{busy}.*free one is chosen"):
            server.start()
    assert not server.running


def test_a_server_that_is_not_ours_or_does_not_start_is_named(run: RunDirectory) -> None:
    server = PostgresServer.create(run, options=SMALL)
    server.system_identifier += 1
    with pytest.raises(NotOurServer, match="another server"):
        server.start()
    assert postgres_processes(server.data) == []
    server.configure({"shared_buffers": "lots"})
    with pytest.raises(ServerFailed, match=r"shared_buffers.*lots"):
        server.start()
    with pytest.raises(StaleDirectory, match="another name"):
        PostgresServer.create(run)


def test_a_server_whose_socket_would_lie_too_deep_is_refused(run: RunDirectory) -> None:
    with pytest.raises(RunDirectoryRefused, match="107"):
        PostgresServer.create(run, name="d" * 90)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root lends the server another user")
def test_a_temporary_directory_closed_to_the_servers_user_is_refused(base: Path) -> None:
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    with RunDirectory.create(base=closed) as run:
        with pytest.raises(RunDirectoryRefused, match=r"nobody.*cannot enter.*closed"):
            PostgresServer.create(run)
        assert not (run.path / "pg").exists()


@pytest.fixture
def small_disk(base: Path) -> Iterator[Path]:
    """A file system of 70 MB: enough for initdb and a server, and for nothing more."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    path = base / "small"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=70m,mode=755", "none", path]).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield path
    subprocess.run(["umount", path], check=True)


def test_a_full_disk_is_named_at_start_and_at_initdb(small_disk: Path) -> None:
    with RunDirectory.create(base=small_disk) as run:
        server = PostgresServer.create(run, options=SMALL)
        fill(run.path / "filler")
        with pytest.raises(DiskFull, match=r"no space left.*set TMPDIR"):
            server.start()
        with pytest.raises(DiskFull, match=r"no space left.*set TMPDIR"):
            PostgresServer.create(run, name="second")
        assert not (run.path / "second").exists()
    assert list(user_root(small_disk).glob("r*")) == []
    with pytest.raises(RunDirectoryRefused, match="No space left"):
        fill(small_disk / "filler")
        RunDirectory.create(base=small_disk)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


def test_a_server_works_wherever_tmpdir_points(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spaces, both quotes, backslash and what a shell or a format would expand; given relative to the directory."""
    place = base / "a 'b' \"c\" \\d $HOME %s ünï"
    place.mkdir()
    place.chmod(0o711)
    monkeypatch.chdir(base)
    monkeypatch.setenv("TMPDIR", place.name)
    with RunDirectory.create() as run, PostgresServer.create(run, options=SMALL) as server:
        monkeypatch.chdir("/")
        for dsn in (server.dsn, server.dsn_tcp):
            assert values(dsn, "select 1") == [1]
        look_at(server.dsn)
        server.crash()
        server.start()
        assert values(server.dsn, "select 1") == [1]
        processes = server.processes()
    assert wait_dead(processes, 0) == []
    assert list(place.glob("*/r*")) == []
