"""Which PostgreSQL a run uses: the user's own (--dsn), the embedded one (default), or one in Docker."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ninelives_rig.cluster import binaries, settings
from ninelives_rig.cluster.dsn import DurabilityReport, look_at
from ninelives_rig.cluster.errors import SettingRefused, Unavailable
from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.rundir import RunDirectory

Kind = Literal["dsn", "embedded", "docker"]
CHOICES = (*binaries.VERSIONS, "docker")


@dataclass(frozen=True, slots=True)
class OpenServer:
    """A server that is up and has been looked at. `server` is set only for an embedded one."""

    dsn: str
    report: DurabilityReport
    kind: Kind
    server: PostgresServer | None = None


@contextmanager
def open_server(
    run: RunDirectory,
    *,
    dsn: str | None = None,
    postgres: str | None = None,
    keep: bool = False,
    allow_weak: bool = False,
    options: Mapping[str, str | int | float | bool] | None = None,
) -> Iterator[OpenServer]:
    """Open the server that the user chose and close it at the end (never one given by `dsn`).

    `postgres` is "16", "18" or "docker"; `options` are settings for a server that we start; `keep` leaves the
    embedded server's data in the run directory. Raises SettingRefused for a wrong choice, Unavailable where
    Docker cannot be used, and what dsn.look_at and PostgresServer raise.
    """
    if dsn is not None and postgres is not None:
        raise SettingRefused("--dsn and --postgres exclude each other: a given server has the version it has")
    if postgres is not None and postgres not in CHOICES:
        raise SettingRefused(f"--postgres {postgres} is not known: choose one of {', '.join(CHOICES)}")
    if postgres == "docker" and keep:
        raise SettingRefused("--keep can keep nothing of --postgres docker: its container is removed with its data")
    if dsn is not None:
        yield OpenServer(dsn, look_at(dsn, allow_weak=allow_weak), "dsn")
    elif postgres == "docker":
        with _docker(options or {}) as address:
            yield OpenServer(address, look_at(address, allow_weak=allow_weak, timeout_s=30.0), "docker")
    else:
        if keep:
            run.keep_directory()
        with PostgresServer.create(run, version=postgres, options=options) as server:
            report = look_at(server.dsn, allow_weak=allow_weak, timeout_s=30.0)
            yield OpenServer(server.dsn, report, "embedded", server)


@contextmanager
def _docker(options: Mapping[str, str | int | float | bool]) -> Iterator[str]:
    """Run the official image; its own reaper container removes it when this process is killed."""
    container = _container(f"postgres:{binaries.NEWEST}")
    command = ["postgres"]
    for name, value in (settings.DEFAULTS | settings.checked(options)).items():
        command += ["-c", f"{name}={value}"]
    try:
        container.with_command(command).start()
    except Exception as error:
        raise Unavailable(f"Docker could not start PostgreSQL: {error}") from error
    try:
        yield str(container.get_connection_url(driver=None))
    finally:
        container.stop()


def _container(image: str) -> Any:
    try:
        docker = importlib.import_module("docker")
        postgres = importlib.import_module("testcontainers.postgres")
    except ImportError as error:
        raise Unavailable(
            f"--postgres docker needs testcontainers ({error}): pip install 'ninelives[docker]', "
            "or leave --postgres away to use the embedded server"
        ) from error
    try:
        client = docker.from_env()
        client.ping()
        client.close()
    except Exception as error:
        raise Unavailable(
            f"no Docker engine answers ({error}): start it, or leave --postgres away to use the embedded server"
        ) from error
    return postgres.PostgresContainer(
        image, username="postgres", password=secrets.token_urlsafe(24), dbname="postgres", driver=None
    )
