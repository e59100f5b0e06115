"""A user's view under Locust: start a flow, wait for its end, ask for its state. See README.md beside this file.

Locust's users are greenlets, the runtime's client is asyncio. Each Locust process therefore has one event loop in a
thread of the operating system, with one client that all its users share, as the users of a web server would.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import gevent  # type: ignore[import-untyped]  # comes with Locust, which is optional
import uvloop
from gevent import monkey  # the same
from gevent.event import AsyncResult  # type: ignore[import-untyped]  # the same
from locust import User, events, task  # type: ignore[import-not-found]  # optional
from locust.runners import MasterRunner  # type: ignore[import-not-found]  # optional

from ninelives import Client, connect
from ninelives.ids import new_instance_id
from ninelives_bench.user_flow import user_flow

DSN_VARIABLE = "NINELIVES_DSN"
TASKS_PER_S = float(os.environ.get("NINELIVES_TASKS_PER_S", "2"))
"""How many tasks a user begins in a second, if none took any time."""
RESULT_TIMEOUT_S = 30.0
_RESULT_BYTES = 200


# Locust has replaced threads by greenlets; a loop in a greenlet would stop all users.
_start_thread = monkey.get_original("_thread", "start_new_thread")


class RealThreads(ThreadPoolExecutor):
    """Threads of the operating system for what a loop hands to threads; greenlets would never get their turn there."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it in a thread of its own."""
        answer: Future[Any] = Future()

        def run() -> None:
            try:
                answer.set_result(fn(*args, **kwargs))
            except BaseException as error:
                answer.set_exception(error)

        _start_thread(run, ())
        return answer


class LoopThread:
    """An event loop in a real thread, which greenlets may ask to run coroutines."""

    def __init__(self) -> None:
        # uvloop does not look at Python's sockets and selectors, which Locust has replaced by gevent's.
        self._loop = uvloop.new_event_loop()
        self._loop.set_default_executor(RealThreads())
        _start_thread(self._run, ())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the thread and return its result, or raise its error; other greenlets go on meanwhile."""
        hub, answer = gevent.get_hub(), AsyncResult()
        tasks: list[asyncio.Task[Any]] = []

        def finish(done: asyncio.Task[Any]) -> None:
            hub.loop.run_callback_threadsafe(_settle, answer, done)

        def begin() -> None:
            tasks.append(self._loop.create_task(coroutine))
            tasks[0].add_done_callback(finish)

        self._loop.call_soon_threadsafe(begin)
        try:
            return answer.get()
        except gevent.GreenletExit:
            # The user is being stopped; nobody waits for the rest.
            self._loop.call_soon_threadsafe(lambda: tasks and tasks[0].cancel())
            raise

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)


def _settle(answer: Any, done: asyncio.Task[Any]) -> None:
    """Hand the outcome over, in gevent's own thread."""
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    if error is None:
        answer.set(done.result())
    else:
        answer.set_exception(error)


class Door:
    """The loop and the client of this process, opened by the first user."""

    def __init__(self) -> None:
        self._thread: LoopThread | None = None
        self._client: Client | None = None
        self._opening: Any = None

    def open(self) -> tuple[LoopThread, Client]:
        """Return both, connected; raises what the client raises when the schema is missing or the server is away."""
        if self._opening is None:
            self._opening = gevent.spawn(self._connect)
        opened: tuple[LoopThread, Client] = self._opening.get()
        return opened

    def _connect(self) -> tuple[LoopThread, Client]:
        self._thread = LoopThread()
        self._client = connect(os.environ[DSN_VARIABLE])
        try:
            self._thread.call(self._client.open())
        except Exception:
            # The next user tries again: the server may have come by then.
            self._thread.stop()
            self._thread = self._client = self._opening = None
            raise
        return self._thread, self._client

    def close(self) -> None:
        """Disconnect; the next user would open it again."""
        thread, client, self._thread, self._client, self._opening = self._thread, self._client, None, None, None
        if thread is not None:
            if client is not None:
                thread.call(client.close())
            thread.stop()


_door = Door()


@events.init.add_listener  # type: ignore[untyped-decorator]  # Locust is optional
def check_dsn(environment: Any, **_: object) -> None:
    """Refuse to start without a database; a master needs none."""
    if DSN_VARIABLE not in os.environ and not isinstance(environment.runner, MasterRunner):
        raise SystemExit(f"{DSN_VARIABLE} is not set; give it the DSN of a database that was migrated")


@events.quitting.add_listener  # type: ignore[untyped-decorator]  # Locust is optional
def close_door(environment: Any, **_: object) -> None:
    """Leave no connection behind."""
    _door.close()


class FlowUser(User):  # type: ignore[misc]  # Locust is optional
    """Somebody who starts flows and wants to know what becomes of them."""

    def wait_time(self) -> float:
        """Pause as somebody who does not look at the clock: users that keep step would all come at once."""
        return random.expovariate(TASKS_PER_S)

    def on_start(self) -> None:
        """Connect, or take the connections that are there."""
        self.thread, self.client = _door.open()
        self.order = {"note": "x" * _RESULT_BYTES}
        self.last: UUID | None = None

    @task(4)  # type: ignore[untyped-decorator]  # Locust is optional
    def start_and_wait(self) -> None:
        """Start a flow and wait for its end: `start` is durable when it returns, `start to finish` has both."""
        began_s = time.perf_counter()
        instance_id = new_instance_id()
        handle = self._ask("start", lambda: self.client.start(user_flow, self.order, instance_id=instance_id))
        if handle is None:
            return
        self.last = instance_id
        self._ask("start to finish", lambda: handle.result(timeout_s=RESULT_TIMEOUT_S), began_s=began_s)

    @task(1)  # type: ignore[untyped-decorator]  # Locust is optional
    def ask_for_status(self) -> None:
        """Ask what the store knows of the flow that was started last."""
        instance_id = self.last
        if instance_id is not None:
            self._ask("status", lambda: self.client.show(instance_id))

    def _ask(
        self, name: str, ask: Callable[[], Coroutine[Any, Any, Any]], *, began_s: float | None = None
    ) -> Any | None:
        """Do one request and tell Locust of it; None when it failed."""
        began_s = time.perf_counter() if began_s is None else began_s
        answer, error = None, None
        try:
            answer = self.thread.call(ask())
        except Exception as failure:
            error = failure
        events.request.fire(
            request_type="flow", name=name, response_time=(time.perf_counter() - began_s) * 1e3, response_length=0,
            exception=error, context={},
        )  # fmt: skip
        return answer
