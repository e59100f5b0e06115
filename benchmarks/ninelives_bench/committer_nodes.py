"""Nodes under load: one process each, with uvloop and the collector's settings, as the command line's node has."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import uvloop

from ninelives.collector import tune_collector
from ninelives_bench.committer_load import ClosedLoop, CommitLoad, Observed, OpenLoop, open_client
from ninelives_bench.committer_population import Population

ANSWER_S = 120.0
"""A node that says nothing for so long behind the end of its phase is broken."""

SETTLE_S = 10.0

Perform = Callable[[Any, Connection], Coroutine[Any, Any, None]]
"""Warms up, says so with an empty text, hears when to begin, sends what it saw, hears to close, sends its report."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A phase whose result nobody gets to see."""

    load: OpenLoop | ClosedLoop


@dataclass(frozen=True, slots=True)
class Measured:
    """A phase that is reported."""

    load: OpenLoop | ClosedLoop


@dataclass(frozen=True, slots=True)
class Order:
    """What one node does in one arm."""

    dsn: str
    population: Population
    warmup: WarmUp
    measured: Measured
    depth_max: int
    result_bytes: int
    seed: int


@dataclass(frozen=True, slots=True)
class Report:
    """What one node says at the end, for the count of the journal: over the warm-up and the measured phase."""

    committed: int
    unanswered: int


class Nodes:
    """Processes that carry out orders, of commits if nothing else is said; use ``with``.

    They die with this process, and Ctrl-C is left to it.
    """

    def __init__(self, count: int, perform: Perform | None = None) -> None:
        """Start ``count`` processes; ``perform`` carries out an order in one, a function of a module (committing)."""
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, perform or commit), name=f"bench-node-{number}", daemon=True
            )
            process.start()
            theirs.close()
            self._ends.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end, process in zip(self._ends, self._processes, strict=True):
            end.close()
            # One that waits for an order ends at once; one that is at work is not waited for.
            process.join(1.0 if error is None else 0.0)
            process.kill()
            process.join()

    def prepare(self, orders: Sequence[Any]) -> None:
        """Let the first nodes connect and warm up; returns when all are ready."""
        self._busy = self._ends[: len(orders)]
        for end, order in zip(self._busy, orders, strict=True):
            end.send(order)
        for end in self._busy:
            _hear(end, ANSWER_S)

    def measure(self, begin: float, seconds: float) -> list[Any]:
        """Let them all begin at ``begin``; their connections stay open until ``release``."""
        for end in self._busy:
            end.send(begin)
        return [_hear(end, seconds + ANSWER_S) for end in self._busy]

    def release(self) -> list[Any]:
        """Let them wait for what is still out, close, and be free for other orders."""
        for end in self._busy:
            end.send("close")
        return [_hear(end, ANSWER_S) for end in self._busy]


def _hear(end: Connection, seconds: float) -> Any:
    if not end.poll(seconds):
        raise RuntimeError(f"a node under load has said nothing for {seconds:.0f} s")
    try:
        said = end.recv()
    except (EOFError, ConnectionError):
        raise RuntimeError("a node under load has died") from None
    if isinstance(said, str) and said:
        raise RuntimeError(f"a node under load failed: {said}")
    return said


def _serve(end: Connection, perform: Perform) -> None:
    """The life of a node: one order after the other, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Ties this process to the one that has started it.
    import ninelives_rig.lifeline  # noqa: F401

    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            order = end.recv()
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(perform(order, end))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise  # Nobody is there any more to hear of it.
            except Exception as error:
                end.send(f"{type(error).__name__}: {error}")


async def commit(order: Order, end: Connection) -> None:
    """Carry out an order of commits."""
    async with open_client(order.dsn) as client:
        load = CommitLoad(
            client, order.population,
            depth_max=order.depth_max, result_bytes=order.result_bytes, seed=order.seed,
        )  # fmt: skip
        tune_collector()
        await _run(load, order.warmup.load)
        end.send("")
        # Nothing is in flight and the client keeps nothing alive, so the loop may stand still.
        begin = end.recv()
        end.send(await _run(load, order.measured.load, begin))
        end.recv()
        unanswered = await load.settle(SETTLE_S)
        end.send(Report(load.committed, unanswered))


async def _run(load: CommitLoad, what: OpenLoop | ClosedLoop, begin: float | None = None) -> Observed:
    if isinstance(what, OpenLoop):
        return await load.open_loop(what, begin)
    return await load.closed_loop(what, begin)
