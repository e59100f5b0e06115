"""Run the real `ninelives` command, and keep nodes alive for as long as a test needs them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from typer.testing import CliRunner

from ninelives import connect, inspect
from ninelives.cli import app

HERE = Path(__file__).parent
TIMEOUT_S = 60.0

Result = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    """The environment without anything that names a database, and with `more`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "NINELIVES_"))}
    return kept | more


def ninelives(*arguments: str, dsn: str | None = None, stdin: str | None = None, **env: str) -> Result:
    """Run the command to its end."""
    given = [] if dsn is None else ["--dsn", dsn]
    return subprocess.run(
        [sys.executable, "-m", "ninelives", *arguments, *given],
        cwd=HERE,
        env=environment(**env),
        input="" if stdin is None else stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def ok(*arguments: str, dsn: str | None = None, **env: str) -> str:
    """Run the command, which must succeed without a word of complaint, and return its output."""
    done = ninelives(*arguments, dsn=dsn, **env)
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr
    return done.stdout.strip()


def facts(*arguments: str, dsn: str | None = None, **env: str) -> Any:
    """Run the command with --json, and return what it printed."""
    return json.loads(ok(*arguments, "--json", dsn=dsn, **env))


def refused(code: int, *arguments: str, dsn: str) -> str:
    """Run the command here, in this process; it must leave with `code` and one line of error, which is returned.

    Half a second cheaper than a process, and there are many ways to be wrong.
    """
    hidden = {key: None for key in os.environ if key.startswith(("PG", "NINELIVES_"))}
    with chdir(HERE):
        done = CliRunner().invoke(app, [*arguments, "--dsn", dsn], env=hidden)
    assert done.exit_code == code, (arguments, done.output, done.exception)
    assert done.stdout == ""
    told = ("started ", "waiting: ", "The effect ", "If it ")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(told)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@contextmanager
def waited(flow_id: str, value: Any, *, dsn: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `start --wait`; yields the instance's id and the process."""
    with subprocess.Popen(
        [sys.executable, "-m", "ninelives", "start", flow_id, "--input", json.dumps(value), "--wait", "--dsn", dsn],
        cwd=HERE,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().removeprefix("started ").partition(",")[0], process
        finally:
            process.kill()


class RunningNode:
    """A node in a process of its own, which has said that it is ready."""

    def __init__(self, process: subprocess.Popen[str], ready: Any) -> None:
        self.process = process
        self.ready = ready

    def end(self, number: int) -> tuple[int, list[Any], str]:
        """Send a signal and wait: exit code, JSON lines since it was ready, standard error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err


@contextmanager
def node(*flows: str, dsn: str, options: tuple[str, ...] = ()) -> Iterator[RunningNode]:
    """Run a node until the block ends."""
    arguments = [sys.executable, "-m", "ninelives", "node", *(f"shop:{flow}" for flow in flows)]
    with subprocess.Popen(
        [*arguments, "--dsn", dsn, "--json", *options],
        cwd=HERE,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if not first:
                raise AssertionError(process.communicate(timeout=TIMEOUT_S))
            yield RunningNode(process, json.loads(first))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.communicate(timeout=TIMEOUT_S)


def look(instance_id: str, *, dsn: str) -> Any:
    """What `ninelives show --json` prints, without the start of a process."""
    return asyncio.run(inspect.show(dsn, "ninelives", UUID(instance_id)))


def started(flow_id: str, value: Any, *, dsn: str) -> str:
    """Start a flow as `ninelives start` does, without the start of a process."""

    async def start() -> str:
        async with connect(dsn) as client:
            return str((await client.start_named(flow_id, value)).instance_id)

    return asyncio.run(start())


def until(instance_id: str, why: str, *, dsn: str) -> Any:
    """Look at an instance until its state, or what comes next, is `why`; return all facts."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while time.monotonic() < give_up_at:
        shown = look(instance_id, dsn=dsn)
        if why in (shown["state"], shown["next"] and shown["next"]["why"]):
            return shown
    raise AssertionError(f"{instance_id} is not {why}: {shown}")
