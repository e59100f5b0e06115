"""Whole flows through a real node in its own process: started durably, run, and awaited by whoever started them."""

from __future__ import annotations

import asyncio
import multiprocessing.connection
import time
from array import array
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ninelives import Flow, Node, Settings
from ninelives.collector import tune_collector
from ninelives_bench import engine_flow
from ninelives_bench.committer_load import GRACE_S, ClosedLoop, OpenLoop, Times
from ninelives_bench.pacer import Pacer

SETTLE_S = 60.0


@dataclass(frozen=True, slots=True)
class FlowOrder:
    """What one node does in one arm."""

    dsn: str
    steps: int
    transactional: bool
    warmup: OpenLoop | ClosedLoop
    measured: OpenLoop | ClosedLoop


@dataclass(slots=True)
class FlowsSeen:
    """What one node saw in one phase; all times in seconds from its beginning."""

    seconds: float
    due_s: Times
    """When each flow was to start: its arrival, or in a closed loop the moment in which it was started."""
    done_s: Times
    """NaN: its result was not there when the phase ended."""
    ended_s: float
    failed: int
    steps: int
    """Bodies run within the phase itself: for rates."""
    steps_settled: int
    """Bodies run until its last flow had ended: what the costs, which are counted until then, are divided by."""
    batches: int
    cpu_s: float


class CountingNode(Node):
    """A node that tells how many exchanges its lanes have sent."""

    @property
    def batches(self) -> int:
        """Exchanges so far, each one round trip."""
        return sum(lane.batches for lane in self._lanes)


class Started(Protocol):
    """A flow that was started."""

    async def result(self) -> Any:
        """Wait for its result."""


class Door(Protocol):
    """Where flows are started: a node, or what stands for one."""

    @property
    def batches(self) -> int:
        """Exchanges so far."""

    async def start(self, flow: Flow, input: Any) -> Started:
        """Start one durably."""


class FlowLoad:
    """Flows of one node, phase after phase."""

    def __init__(self, node: Door, flow: Flow) -> None:
        self._node = node
        self._flow = flow
        self._loop = asyncio.get_running_loop()
        self._out: set[asyncio.Task[None]] = set()
        self._due = array("d")
        self._done = array("d")
        self._begin = 0.0
        self.failed = 0

    async def open_loop(self, load: OpenLoop, begin: float) -> FlowsSeen:
        """Start a flow at each of the given times, a task for each as a user has."""
        before = self._open_book(begin)
        until = begin + load.seconds + GRACE_S

        def issue(index: int) -> bool:
            self._due.append(load.due_s[index])
            self._done.append(float("nan"))
            task = self._loop.create_task(self._flow_through(index))
            self._out.add(task)
            task.add_done_callback(self._out.discard)
            return True

        await Pacer(load.due_s, issue).run(begin, until)
        await asyncio.sleep(max(0.0, begin + load.seconds - time.perf_counter()))
        steps = engine_flow.steps_run
        await self.settle(max(0.0, until - time.perf_counter()))
        return self._close_book(load.seconds, before, steps)

    async def closed_loop(self, load: ClosedLoop, begin: float) -> FlowsSeen:
        """Keep so many flows in flight; those that are out at the end of the phase are awaited behind it."""
        await asyncio.sleep(max(0.0, begin - time.perf_counter()))
        before = self._open_book(begin)
        until = begin + load.seconds

        async def user() -> None:
            while (now := time.perf_counter()) < until:
                index = len(self._due)
                self._due.append(now - begin)
                self._done.append(float("nan"))
                await self._flow_through(index)

        self._out.update(self._loop.create_task(user()) for _ in range(load.in_flight))
        await asyncio.sleep(max(0.0, until - time.perf_counter()))
        steps = engine_flow.steps_run
        await self.settle(SETTLE_S)
        return self._close_book(load.seconds, before, steps)

    async def settle(self, timeout_s: float) -> None:
        """Wait for what is out."""
        if self._out:
            await asyncio.wait(self._out, timeout=timeout_s)

    async def _flow_through(self, index: int) -> None:
        try:
            handle = await self._node.start(self._flow, engine_flow.INPUT)
            result = await handle.result()
        except Exception:
            self.failed += 1
            return
        self._done[index] = time.perf_counter() - self._begin
        self.failed += result != engine_flow.RESULT

    def _used(self) -> tuple[float, int, int]:
        return time.process_time(), self._node.batches, engine_flow.steps_run

    def _open_book(self, begin: float) -> tuple[float, int, int]:
        self._due, self._done, self._begin, self.failed = array("d"), array("d"), begin, 0
        self._out = set()
        return self._used()

    def _close_book(self, seconds: float, before: tuple[float, int, int], steps: int) -> FlowsSeen:
        used = self._used()
        return FlowsSeen(
            seconds, np.array(self._due), np.array(self._done), time.perf_counter() - self._begin, self.failed,
            steps - before[2], used[2] - before[2], used[1] - before[1], used[0] - before[0],
        )  # fmt: skip


async def run_flows(order: FlowOrder, end: multiprocessing.connection.Connection) -> None:
    """Carry out an order of flows; see ``committer_nodes.Perform``."""
    flow = engine_flow.make_flow(order.steps, transactional=order.transactional)
    async with CountingNode(order.dsn, flows=[flow], settings=Settings(in_flight_max=100_000)) as node:
        load = FlowLoad(node, flow)
        tune_collector()
        await _run(load, order.warmup, time.perf_counter())
        end.send("")
        begin = await asyncio.to_thread(end.recv)
        end.send(await _run(load, order.measured, begin))
        # Not in the loop: heartbeats and polls of the node go on while the others are measured.
        await asyncio.to_thread(end.recv)
        await load.settle(SETTLE_S)
    # Behind the node's goodbye: the database is dropped next.
    end.send(None)


async def _run(load: FlowLoad, what: OpenLoop | ClosedLoop, begin: float) -> FlowsSeen:
    if isinstance(what, OpenLoop):
        return await load.open_loop(what, begin)
    return await load.closed_loop(what, begin)
