"""A PostgreSQL server of our own: made, started, crashed, restarted and removed by the rig."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.conninfo import make_conninfo

from ninelives_rig.cluster import binaries, settings
from ninelives_rig.cluster.account import Account, server_account
from ninelives_rig.cluster.errors import NotOurServer, PortBusy, ServerFailed, StaleDirectory
from ninelives_rig.cluster.initialize import SUPERUSER, Places, disk_full_named, failure, make_cluster
from ninelives_rig.cluster.processes import cluster_name, postgres_processes, remove_left_segment
from ninelives_rig.cluster.spawn import spawn
from ninelives_rig.identity import ProcessIdentity, descendants, kill_all, wait_dead
from ninelives_rig.rundir import RunDirectory

_DATABASE = "postgres"
_PORT_TRIES = 10
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_KILL_TIMEOUT_S = 10.0
_LAST_WORDS_S = 1.0
_POLL_S = 0.005

Options = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class CrashProof:
    """Evidence of a crash: who was there, how the postmaster ended, and how long all took to die."""

    postmaster: ProcessIdentity
    backends: tuple[ProcessIdentity, ...]
    exit_code: int
    took_s: float


class PostgresServer:
    """One server with its data under a run directory. Use `create`, then `start`, or `with` for both.

    As root the server runs as an unprivileged user. It dies when this process does, in whatever way.
    Not thread-safe: one thread at a time may start, stop or crash it.
    """

    def __init__(self, run: RunDirectory, places: Places, programs: binaries.Binaries, account: Account | None) -> None:
        self.run = run
        self.version = programs.version
        self.account = account
        self.port = 0
        self.postmaster: ProcessIdentity | None = None
        self.system_identifier = 0
        self._places = places
        self._programs = programs
        self._password = secrets.token_urlsafe(24)
        self._settings: dict[str, str] = dict(settings.DEFAULTS)
        self._port_fixed = False
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def create(
        cls,
        run: RunDirectory,
        *,
        name: str = "pg",
        version: str | None = None,
        options: Options | None = None,
        port: int | None = None,
    ) -> PostgresServer:
        """Make a data directory (checksums, C.UTF-8, UTF8) below `run`/`name`; the server is not started yet.

        `version` is "16" or "18" (default: newest); `options` are server settings over the rig's own; `port`
        is a fixed port instead of a random free one. Raises BinariesMissing, AccountRefused, SettingRefused,
        StaleDirectory, DiskFull, RunDirectoryRefused or ServerFailed.
        """
        account = server_account()
        programs = binaries.find(version, account, run.path.parent.parent)
        server = cls(run, Places(run.path / name), programs, account)
        server._settings |= settings.checked(options or {})
        if port is not None:
            server.port, server._port_fixed = port, True
        server.system_identifier = make_cluster(run, server._places, programs, account, server._password)
        server._write_settings()
        return server

    # ---- what others need to know

    @property
    def dsn(self) -> str:
        """Connection string over the unix socket, for processes of the rig's own user."""
        return self._dsn(str(self._places.sockets))

    @property
    def dsn_tcp(self) -> str:
        """Connection string over 127.0.0.1, with the password that loopback asks for."""
        return self._dsn("127.0.0.1", password=self._password)

    def _dsn(self, host: str, **secret: str) -> str:
        return make_conninfo("", host=host, port=self.port, user=SUPERUSER, dbname=_DATABASE, **secret)

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._places.data

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._places.log

    @property
    def running(self) -> bool:
        """Tell whether the postmaster lives."""
        return self.postmaster is not None and self.postmaster.alive()

    @property
    def options(self) -> dict[str, str]:
        """The settings that this object has written for the server."""
        return dict(self._settings)

    def processes(self) -> list[ProcessIdentity]:
        """Return the postmaster and all its live children, postmaster first; [] when it is down."""
        if self.postmaster is None or not self.postmaster.alive():
            return []
        return [self.postmaster, *descendants(self.postmaster)]

    def start_command(self) -> list[str]:
        """Return what starts the server again by hand, on the same port, when its directory has been kept."""
        account = self.account
        ids = [f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"] if account else []
        return [*(["setpriv", *ids] if ids else []), *self._command()]

    # ---- life

    def configure(self, options: Options) -> None:
        """Change settings in the server's file, for the next `reload` or `restart` (as PostgreSQL says).

        Raises SettingRefused for a name or value that no file could hold.
        """
        self._settings |= settings.checked(options)
        self._write_settings()

    def start(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Start the server, wait until it accepts connections, and prove that it is this one.

        The first start chooses a random free port and tries another when it loses a race for it; later starts
        keep the port, so that connection strings stay true. Raises PortBusy, DiskFull, NotOurServer, or
        ServerFailed with the end of the log when it does not come up within `timeout_s`.
        """
        if self.running:
            raise ServerFailed(f"the server on port {self.port} already runs: stop it first")
        self._remove_left_lock()
        for _ in range(1 if self._port_fixed else _PORT_TRIES):
            if not self._port_fixed:
                self.port = free_port()
            try:
                self._start_once(timeout_s)
            except PortBusy:
                continue
            self._port_fixed = True
            return
        raise PortBusy(
            f"another program listens on 127.0.0.1:{self.port}: end it (see `ss -ltnp`), or leave the port "
            "open so that a free one is chosen"
        )

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Stop the server the fast way (clients cut off, data written); by a crash when that takes too long.

        A server that is down already, or that died by itself, is fine.
        """
        if self.postmaster is None or self._process is None:
            return
        kill_all(self.processes(), signal.SIGCONT)
        self.postmaster.kill(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        if self.running:
            self.crash()
        self._end_backends()
        self._forget()

    def crash(self) -> CrashProof:
        """SIGKILL the postmaster and every backend at once, as a loss of power would, and prove it.

        Raises ServerFailed when the server does not run or a process survives.
        """
        postmaster, process = self.postmaster, self._process
        if postmaster is None or process is None or not postmaster.alive():
            raise ServerFailed("there is no running server to crash")
        began = time.monotonic()
        # A stopped postmaster starts no further backend while we look.
        postmaster.kill(signal.SIGSTOP)
        there = dict.fromkeys([*descendants(postmaster), *postgres_processes(self.data)])
        there.pop(postmaster, None)
        kill_all([postmaster, *there])
        exit_code = process.wait(_KILL_TIMEOUT_S)
        left = wait_dead(there, _KILL_TIMEOUT_S) or self._end_backends()
        if left or exit_code != -signal.SIGKILL:
            raise ServerFailed(f"crash not proved: exit code {exit_code}, still alive: {left}")
        self._forget()
        return CrashProof(postmaster, tuple(there), exit_code, time.monotonic() - began)

    def restart(self) -> None:
        """Stop the server the fast way and start it again on the same port."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """Make the server read its settings again. Raises ServerFailed when it does not run."""
        if self.postmaster is None or not self.postmaster.kill(signal.SIGHUP):
            raise ServerFailed("the server does not run, so it cannot reload its settings: start it")

    def close(self) -> None:
        """Stop the server if it runs, and drop the shared memory that a crash without a restart has left."""
        self.stop()
        remove_left_segment(self.data)

    def __enter__(self) -> Self:
        if not self.running:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- starting it

    def _command(self) -> list[str]:
        command = [str(self._programs.program("postgres")), "-D", str(self.data), "-p", str(self.port)]
        return [*command, "-c", f"config_file={self._places.home / 'settings.conf'}"]

    def _write_settings(self) -> None:
        places = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": settings.list_item(str(self._places.sockets)),
            "hba_file": str(self._places.home / "hba.conf"),
            "cluster_name": cluster_name(self.data),
        }
        with disk_full_named(self._places.home):
            settings.write(self._places.home / "settings.conf", self._settings | places)
            settings.write_text(self._places.home / "hba.conf", settings.HBA)

    def _start_once(self, timeout_s: float) -> None:
        command = self._command()
        log_start = self.log.stat().st_size
        with self.log.open("ab") as log:
            self._process = process = spawn(command, account=self.account, output=log)
        self.postmaster = ProcessIdentity.of(process.pid)
        try:
            self.run.register_process(self.postmaster, "postmaster", self.data)
            self._wait_ready(process, timeout_s, log_start)
            self._prove_ours(log_start)
        except BaseException:
            with suppress(ServerFailed):
                self.crash()
            self._end_backends()
            self._forget()
            raise

    def _wait_ready(self, process: subprocess.Popen[bytes], timeout_s: float, log_start: int) -> None:
        end = time.monotonic() + timeout_s
        while not self._says_ready(process.pid):
            if process.poll() is not None:
                said = self._said(log_start)
                if "Address already in use" in said or "could not create any TCP/IP sockets" in said:
                    raise PortBusy(f"port {self.port} is taken")
                what = f"the server ended with code {process.returncode} while starting"
                raise failure(what, self._places.home, said)
            if time.monotonic() > end:
                what = f"the server was not ready after {timeout_s:.0f} s"
                raise failure(what, self._places.home, self._said(log_start))
            time.sleep(_POLL_S)

    def _says_ready(self, pid: int) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _prove_ours(self, log_start: int) -> None:
        """Ask over both ways who answers: only our own server has our system identifier."""
        for dsn in (self.dsn, self.dsn_tcp):
            try:
                with psycopg.connect(dsn, connect_timeout=10) as connection:
                    row = connection.execute("select system_identifier from pg_control_system()").fetchone()
            except psycopg.OperationalError as error:
                what = f"the server does not answer on port {self.port} ({error})"
                raise failure(what, self._places.home, self._said(log_start)) from error
            if row is None or row[0] != self.system_identifier:
                raise NotOurServer(f"another server answers on port {self.port}: end it, or use another port")

    def _said(self, log_start: int) -> str:
        with self.log.open("rb") as file:
            file.seek(log_start)
            return file.read().decode(errors="replace")

    # ---- ending it

    def _end_backends(self) -> list[ProcessIdentity]:
        """End what a dead postmaster has left; return what does not die of it."""
        left = wait_dead(postgres_processes(self.data), _LAST_WORDS_S)
        kill_all(left)
        return wait_dead(left, _KILL_TIMEOUT_S)

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait(_KILL_TIMEOUT_S)
        self.postmaster = self._process = None

    def _remove_left_lock(self) -> None:
        """Remove the postmaster.pid of a crash: its pid may belong to another process of that user by now."""
        if postgres_processes(self.data):
            raise StaleDirectory(f"a server still works in {self.data}: end it before starting another")
        remove_left_segment(self.data)
        (self.data / "postmaster.pid").unlink(missing_ok=True)


def free_port() -> int:
    """Return a port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
