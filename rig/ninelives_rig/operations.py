"""What the coordinator does to instances as a client, beside the nodes: signals, pauses, resumes.

It sees that an instance is held by the witness of its first effect, so that what it sends arrives while a step is
being done. It has a thread and a connection of its own; everything that it sends and hears goes into the history.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from uuid import UUID

import orjson

from ninelives_rig.campaign import Operations
from ninelives_rig.engines.base import Operator
from ninelives_rig.recorder import Recorder

_LOOK_S = 0.02


class Sightings:
    """Reads the witnesses as they grow and yields each instance once, when its first step has its first effect."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[Path, int] = {}
        self._seen: set[UUID] = set()

    def look(self) -> Iterator[UUID]:
        """Yield the instances that have come into sight since the last look."""
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                record = orjson.loads(line)
                instance_id = UUID(record["instance_id"])
                if record["step_id"] == 1 and instance_id not in self._seen:
                    self._seen.add(instance_id)
                    yield instance_id


class OperatorThread:
    """Carries out an arm's operations until it is closed."""

    def __init__(
        self,
        plan: Operations,
        waits: Sequence[tuple[int, str]],
        instances: Sequence[UUID],
        seed: str,
        sightings: Sightings,
        recorder: Recorder,
    ) -> None:
        self._plan = plan
        self._waits = waits
        self._instances = instances
        self._sightings = sightings
        self._recorder = recorder
        chance = random.Random(seed)
        self._paused = set(chance.sample(list(instances), round(plan.pause_share * len(instances))))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, client: AbstractAsyncContextManager[Operator]) -> None:
        """Begin, over this client."""
        self._thread = threading.Thread(target=self._run, args=(client,), name="rig-operator", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what was not sent never will be."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10.0)
            self._thread = None

    def _run(self, client: AbstractAsyncContextManager[Operator]) -> None:
        asyncio.run(self._work(client))

    async def _work(self, client: AbstractAsyncContextManager[Operator]) -> None:
        tasks: set[asyncio.Task[None]] = set()
        async with client as operator:
            if self._plan.signals_at == "start":
                tasks |= {asyncio.create_task(self._send_signals(operator, one)) for one in self._instances}
            while not self._stop.is_set():
                for instance_id in self._sightings.look():
                    tasks.add(asyncio.create_task(self._handle(operator, instance_id)))
                await asyncio.sleep(_LOOK_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, operator: Operator, instance_id: UUID) -> None:
        paused = instance_id in self._paused
        if paused:
            paused = await self._told("pause", operator.pause(instance_id), instance_id)
        if self._plan.signals_at == "held":
            await self._send_signals(operator, instance_id)
        if paused:
            await asyncio.sleep(self._plan.pause_s)
            await self._told("resume", operator.resume(instance_id), instance_id)

    async def _send_signals(self, operator: Operator, instance_id: UUID) -> None:
        for step_id, name in self._waits:
            for _ in range(self._plan.copies):
                signal_id = f"{instance_id}/{step_id}"
                asked = operator.signal(instance_id, name, signal_id)
                await self._told("signal", asked, instance_id, signal_id=signal_id)

    async def _told(self, what: str, asked: Awaitable[str | None], instance_id: UUID, **fields: object) -> bool:
        """Record the question and the answer; true when it was acknowledged."""
        self._recorder.event(f"{what}.invoke", instance_id=str(instance_id), **fields)
        try:
            outcome = await asked
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            self._recorder.event(f"{what}.info", instance_id=str(instance_id), error=told, **fields)
            return False
        self._recorder.event(f"{what}.ok", instance_id=str(instance_id), outcome=outcome, **fields)
        return True
