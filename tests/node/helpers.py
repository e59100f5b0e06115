"""Nodes for tests, in this process or in one of their own, and waits that name what they waited for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from tests.node import flows
from tests.store.doors import instance, journal, sql, value

from ninelives import Flow, Node, Settings

__all__ = ["instance", "journal", "run", "sql", "value"]

T = TypeVar("T")
BOUND_S = 30.0
TOP = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("child.py")
QUICK: dict[str, Any] = {"ttl_s": 30.0, "poll_s": 0.1, "look_s": 0.05, "drain_s": 5.0}


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine; one that hangs fails."""

    async def bounded() -> T:
        async with asyncio.timeout(60.0):
            return await main

    return asyncio.run(bounded())


def make_node(dsn: str, carried: Iterable[Flow] = (), **settings: Any) -> Node:
    """A node in this process, quick to look and slow to expire unless told otherwise."""
    return Node(dsn, flows=list(carried) or flows.ALL, settings=Settings(**{**QUICK, **settings}))


async def until(what: str, fact: Callable[[], bool], timeout_s: float = BOUND_S) -> None:
    """Wait for a fact; fail naming it when it does not come true in time."""
    end = time.monotonic() + timeout_s
    while not fact():
        assert time.monotonic() < end, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.01)


async def until_state(dsn: str, instance_id: UUID, state: str, timeout_s: float = BOUND_S) -> None:
    """Wait until an instance is in a state."""
    query = "select state from ninelives.flow_instance where instance_id = %s"
    await until(f"{instance_id} is {state}", lambda: sql(dsn, query, instance_id) == [(state,)], timeout_s)


async def until_parked(dsn: str, instance_id: UUID) -> None:
    """Wait until nobody holds an instance that is not finished."""
    query = "select holder from ninelives.flow_wake where instance_id = %s"
    suspended = "select state from ninelives.flow_instance where instance_id = %s"
    await until(
        f"{instance_id} is parked",
        lambda: sql(dsn, query, instance_id) == [(None,)] and sql(dsn, suspended, instance_id) == [("Suspended",)],
    )


class Child:
    """A node process of a test."""

    def __init__(self, process: subprocess.Popen[str], session_id: int) -> None:
        self.process = process
        self.session_id = session_id

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL it and wait for its end."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        """Freeze it."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Thaw it."""
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> int:
        """SIGTERM it, wait, and return its exit code."""
        self.process.terminate()
        return self.process.wait(20)


@contextmanager
def child(dsn: str, carried: Iterable[str] = (), probe: Path | None = None, **settings: Any) -> Iterator[Child]:
    """Run a node in a process of its own; it is killed at the end if the test has not ended it."""
    path = os.pathsep.join([str(TOP), os.environ.get("PYTHONPATH", "")])
    wanted = {"flows": list(carried), "settings": {**QUICK, **settings}}
    process = subprocess.Popen(
        [sys.executable, str(CHILD), dsn, json.dumps(wanted)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "NINELIVES_TEST_PROBE": str(probe)},
    )
    try:
        assert process.stdout is not None
        word, _, session_id = process.stdout.readline().partition(" ")
        assert word == "ready", f"the child ended with {process.wait(5)}"
        yield Child(process, int(session_id))
    finally:
        process.kill()
        process.communicate()
