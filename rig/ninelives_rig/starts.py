"""Starting instances from a list so that none is forgotten, whoever is killed in between.

Each list belongs to a slot (worker-1), not to a process (worker-1.3). What is acknowledged is marked in a
file of the slot, by one write(2) an instance; the process that takes the slot next repeats whatever carries
no mark. A start is idempotent by its id, so repeating one whose mark was lost is safe.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from ninelives_rig.engines.base import Running, Starter
from ninelives_rig.recorder import Recorder

_MARK = struct.Struct("<I")
_RETRY_FIRST_S = 0.05
_RETRY_LAST_S = 1.0


class StartList:
    """The starts of one slot that are still owed.

    ``serial`` marks an instance when it has ended and not when its start is acknowledged, so that the next
    process of the slot first waits for the one that was under way: with one in flight, the whole arm has
    one in flight.
    """

    def __init__(
        self, path: Path, indexes: Sequence[int], instance_id: Callable[[int], UUID], serial: bool = False
    ) -> None:
        self.serial = serial
        self.acknowledged = 0
        self.problem = ""
        """What the latest start that failed said."""
        self._instance_id = instance_id
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._marked = set(marked_indexes(path))
        self._owed = iter([index for index in indexes if index not in self._marked])

    def take(self) -> Iterator[tuple[int, UUID]]:
        """Yield each start that is owed, once."""
        for index in self._owed:
            yield index, self._instance_id(index)

    def mark(self, index: int) -> None:
        """Note for every later process of this slot that this start need not be repeated."""
        os.write(self._descriptor, _MARK.pack(index))
        self.acknowledged += 1

    def close(self) -> None:
        """Close the file of marks."""
        os.close(self._descriptor)


def marked_indexes(path: Path) -> list[int]:
    """Read a slot's marks; a torn last mark counts as none."""
    content = path.read_bytes() if path.exists() else b""
    whole = len(content) - len(content) % _MARK.size
    return [index for (index,) in _MARK.iter_unpack(content[:whole])]


async def keep_in_flight(
    starter: Starter,
    starts: StartList,
    in_flight: int,
    recorder: Recorder,
    stopping: asyncio.Event,
    is_refusal: Callable[[Exception], bool] = lambda error: False,
    wait_for_end: bool = True,
) -> None:
    """Start what the list owes, ``in_flight`` at a time; the next start follows when an instance has ended.

    With ``wait_for_end`` False only the starts themselves are bounded. Returns when nothing is owed or
    ``stopping`` is set; what is under way is then left to the node. A start that fails is repeated until it
    is acknowledged.
    """
    takes = starts.take()

    async def lane() -> None:
        for index, instance_id in takes:
            if stopping.is_set():
                return
            running = await _start(starter, starts, index, instance_id, recorder, stopping, is_refusal)
            if running is None:
                return
            if not starts.serial:
                starts.mark(index)
            if wait_for_end:
                await running.finished()
            if starts.serial:
                starts.mark(index)

    lanes = [asyncio.create_task(lane()) for _ in range(in_flight)]
    stopped = asyncio.create_task(stopping.wait())
    pending: set[asyncio.Task[object]] = {*lanes, stopped}
    try:
        while any(not one.done() for one in lanes) and not stopping.is_set():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for one in done - {stopped}:
                one.result()
    finally:
        for task in [*lanes, stopped]:
            task.cancel()
        for task in [*lanes, stopped]:
            with suppress(asyncio.CancelledError):
                await task


async def _start(
    starter: Starter,
    starts: StartList,
    index: int,
    instance_id: UUID,
    recorder: Recorder,
    stopping: asyncio.Event,
    is_refusal: Callable[[Exception], bool],
) -> Running | None:
    """Start one instance until it is acknowledged; each try is recorded. None if the node stops first."""
    delay_s = _RETRY_FIRST_S
    name = str(instance_id)
    while not stopping.is_set():
        recorder.event("start.invoke", instance_id=name)
        try:
            running = await starter.start(index, instance_id)
        except Exception as error:
            outcome = "start.fail" if is_refusal(error) else "start.info"
            starts.problem = f"{type(error).__name__}: {error}"
            recorder.event(outcome, instance_id=name, error=starts.problem)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), delay_s)
            delay_s = min(delay_s * 2, _RETRY_LAST_S)
        else:
            recorder.event("start.ok", instance_id=name)
            return running
    return None
