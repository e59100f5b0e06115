"""The client: start flows durably, signal, pause and resume them, and wait for their results."""

from __future__ import annotations

import asyncio
import builtins
import hashlib
import zlib
from collections.abc import Sequence
from typing import Any, Self
from uuid import UUID, uuid4

from ninelives import codec, inspect, queries
from ninelives.boundaries import Boundary, reached
from ninelives.errors import (
    InstanceConflict,
    InstanceFailed,
    InstanceFinished,
    InstanceUnknown,
    PlanRefused,
    StoreUnavailable,
)
from ninelives.flow import Flow
from ninelives.ids import new_instance_id
from ninelives.migrate import require_schema
from ninelives.plan import Plan
from ninelives.registry import check_runnable
from ninelives.settings import Settings
from ninelives.store.control import Control
from ninelives.store.lane import Lane
from ninelives.store.rows import Row, Start
from ninelives.wire import Wire

POLL_S_MIN, POLL_S_MAX = 0.002, 0.25
BATCHED = (
    "start_guard", "start", "start_held", "start_existing", "start_notify",
    "commit_wakes", "commit_lock", "commit_rows", "commit_careful", "commit_classify", "finish",
    "intend", "park_lock_wakes", "park", "release",
)  # fmt: skip
SINGLE = (
    "claim", "read_choose", "read_steps", "read_signals", "read_intents", "read_paused", "read_results",
    "commit_lock", "doubt", "void", "wake", "signal", "signal_guard", "signal_early", "start_notify",
    "pause", "pause_lock", "resume", "settle", "known", "plan_register", "plan_find", "audit",
)  # fmt: skip


class Handle:
    """A started instance."""

    def __init__(self, client: Client, instance_id: UUID) -> None:
        self._client = client
        self.instance_id = instance_id

    async def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the end and return the result of the last step.

        Raises ``InstanceFailed`` when it ended otherwise than Completed, ``InstanceUnknown`` when there is no such
        instance, ``TimeoutError`` after ``timeout_s`` seconds (the instance goes on).
        """
        if timeout_s is None:
            state, result = await self._client.await_end(self.instance_id)
        else:
            async with asyncio.timeout(timeout_s):
                state, result = await self._client.await_end(self.instance_id)
        if state == "Completed":
            return result
        raise InstanceFailed(self.instance_id, state, result if isinstance(result, dict) else {"message": str(result)})

    def __repr__(self) -> str:
        return f"<instance {self.instance_id}>"


class Client:
    """A door to one schema of one database; open it with ``async with``."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "ninelives",
        settings: Settings | None = None,
    ) -> None:
        self.dsn = dsn.strip()
        self.schema = schema
        self.settings = settings or Settings()
        self._queries = queries.load(schema)
        self._start_lock = zlib.crc32(schema.encode()) - (1 << 31)
        self._channel = "ninelives_" + hashlib.md5(schema.encode(), usedforsecurity=False).hexdigest()
        self._lanes: list[Lane] = []
        self._openings: set[asyncio.Future[None]] = set()
        self._closed = False
        self._plan_ids: dict[tuple[str, str], int] = {}

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Check the schema and connect; raises ``SchemaMissing``, ``SchemaTooNew`` or ``StoreUnavailable``."""
        await self._check_schema()
        self._lanes, self._closed = [], False
        self.control = Control(
            self._open_single, start_lock=self._start_lock, channel=self._channel, on_notify=self._on_notify
        )
        try:
            await self.control.open()
            await self._open_lanes(1)
        except BaseException:
            # Only what was opened here: a node that tries again must not have said that it leaves.
            await Client.close(self)
            raise

    async def close(self) -> None:
        """Close the connections, those too that are being opened again."""
        self._closed = True
        for lane in self._lanes:
            await lane.close()
        self.control.close()
        if self._openings:
            await asyncio.wait(list(self._openings), timeout=self.settings.connect_timeout_s)
        # A lane that rests between two tries has been cancelled above, and ends in the loop's next round.
        await asyncio.sleep(0)

    # -- flows

    async def start(self, flow: Flow | Plan, input: Any = None, *, instance_id: UUID | None = None) -> Handle:
        """Start ``flow`` durably: when this returns, the instance, its input and its wake are committed.

        ``instance_id`` makes the start repeatable: the same id, flow and input return the same instance, which keeps
        the version that it began with; another flow or input raises ``InstanceConflict``.
        ``input`` is a JSON value; ``PayloadRefused`` names what cannot be stored.
        """
        plan = flow.plan if isinstance(flow, Flow) else flow
        plan_id = await self.register(plan)
        return await self._start(plan.flow_id, plan.version, plan_id, plan.deadline_s, input, instance_id)

    async def start_named(
        self, flow_id: str, input: Any = None, *, version: str | None = None, instance_id: UUID | None = None
    ) -> Handle:
        """Start a flow that a node has registered, by name; the newest version where none is given."""
        found = await self.control.find_plan(flow_id, version)
        if found is None:
            wanted = flow_id if version is None else f"{flow_id} {version}"
            raise PlanRefused(wanted, "no node has registered it; start a node that carries it first")
        plan_id, version, described = found
        deadline_s = codec.decode(described).get("deadline_s")
        return await self._start(flow_id, version, plan_id, deadline_s, input, instance_id)

    async def register(self, plan: Plan) -> int:
        """Make a plan known; raises ``PlanMismatch`` when another plan has its id and version."""
        key = (plan.flow_id, plan.version)
        plan_id = self._plan_ids.get(key)
        if plan_id is None:
            check_runnable(plan)
            described = codec.encode(plan.describe(), limit_bytes=1 << 30, what="plan")
            plan_id = await self.control.register(plan.flow_id, plan.version, plan.fingerprint, described)
            self._plan_ids[key] = plan_id
        return plan_id

    async def _start(
        self, flow_id: str, version: str, plan_id: int, deadline_s: float | None, input: Any, instance_id: UUID | None
    ) -> Handle:
        instance_id = checked_id(instance_id)
        row = self._start_row(flow_id, version, plan_id, deadline_s, input, instance_id, hold=False)
        await self._started(row, instance_id)
        return Handle(self, instance_id)

    def _start_row(
        self, flow_id: str, version: str, plan_id: int, deadline_s: float | None, input: Any,
        instance_id: UUID, hold: bool,
    ) -> Start:  # fmt: skip
        encoded = codec.encode(input, limit_bytes=self.settings.payload_limit_bytes, what=f"input of {flow_id}")
        return Start(
            instance_id.bytes, asyncio.get_running_loop().create_future(), plan_id, flow_id.encode(),
            version.encode(), encoded, round((deadline_s or 0) * 1000), hold,
        )  # fmt: skip

    async def _started(self, row: Start, instance_id: UUID) -> str:
        """Write a start and wait until it is durable; returns held, started or exists."""
        self.submit(row)
        verdict = await row.answered
        if verdict == "conflict":
            raise InstanceConflict(instance_id)
        if verdict not in ("held", "started", "exists"):
            raise StoreUnavailable(f"the start was refused: {row.error or verdict}")
        reached(Boundary.START_COMMITTED, instance_id, "", 0, 0, row.token)
        return verdict

    # -- instances

    async def signal(self, instance_id: UUID, name: str, payload: Any = None, *, signal_id: str | None = None) -> str:
        """Send a signal: accepted, duplicate (of ``signal_id``), finished, or buffered before the start.

        It is durable when this returns and is consumed once, by the wait of that name.
        """
        encoded = codec.encode(payload, limit_bytes=self.settings.payload_limit_bytes, what=f"signal {name}")
        codec.encode([name, signal_id], limit_bytes=2048, what="name and id of the signal")
        return await self.control.signal(instance_id.bytes, signal_id or str(uuid4()), name, encoded)

    async def pause(self, instance_id: UUID) -> None:
        """Let an instance start nothing more; raises ``InstanceFinished`` or ``InstanceUnknown``."""
        if await self.control.pause(instance_id.bytes) is None:
            await self._refuse_missing(instance_id)

    async def resume(self, instance_id: UUID) -> None:
        """Let a paused instance go on; raises ``InstanceFinished`` or ``InstanceUnknown``."""
        if await self.control.resume(instance_id.bytes) is None:
            await self._refuse_missing(instance_id)

    async def rerun_in_doubt(self, instance_id: UUID, step_id: int, *, scope: str = "") -> bool:
        """An operator's word: the effect in doubt did not happen and cannot land any more; run it under a new key."""
        return await self.control.settle(instance_id.bytes, scope, step_id)

    async def show(self, instance_id: UUID) -> dict[str, Any]:
        """Return what the store knows of an instance as JSON values; raises ``InstanceUnknown``."""
        return await inspect.show(self.dsn, self.schema, instance_id)

    async def list(
        self, *, state: str | None = None, flow_id: str | None = None, limit: int = 50, in_doubt: bool = False
    ) -> builtins.list[dict[str, Any]]:
        """Return the newest instances that match, as JSON values."""
        found = await inspect.listing(
            self.dsn, self.schema, state=state, flow_id=flow_id, limit=limit, in_doubt=in_doubt
        )
        instances: builtins.list[dict[str, Any]] = found["instances"]
        return instances

    def handle(self, instance_id: UUID) -> Handle:
        """Return a handle of an instance that is known by its id."""
        return Handle(self, instance_id)

    async def await_end(self, instance_id: UUID) -> tuple[str, Any]:
        """Wait until an instance is terminal; returns its state and its result or error."""
        delay_s = POLL_S_MIN
        while True:
            known = await self.control.known(instance_id.bytes)
            if known is None:
                raise InstanceUnknown(instance_id)
            if known[0] in TERMINAL:
                return known[0], None if known[1] is None else codec.decode(known[1])
            await asyncio.sleep(delay_s)
            delay_s = min(POLL_S_MAX, delay_s * 1.5)

    async def _refuse_missing(self, instance_id: UUID) -> None:
        if await self.control.known(instance_id.bytes) is None:
            raise InstanceUnknown(instance_id)
        raise InstanceFinished(instance_id)

    # -- connections

    def submit(self, row: Row) -> None:
        """Queue a row on the lane of its instance, so that an instance's writes keep their order."""
        lanes = self._lanes
        lanes[row.instance_id[15] % len(lanes)].submit(row)

    async def _check_schema(self) -> None:
        await asyncio.to_thread(require_schema, self.dsn, self.schema)

    def _on_notify(self, channel: str) -> None:
        """A client waits for nothing that is notified."""

    def _application_name(self) -> str:
        return "ninelives client"

    def _lane_session(self) -> int:
        return 0

    async def _open_lanes(self, count: int) -> None:
        for _ in range(count):
            lane = Lane(
                self._open_batched,
                session_id=self._lane_session,
                start_lock=self._start_lock,
                channel=self._channel,
            )
            await lane.open()
            self._lanes.append(lane)

    async def _open_batched(self) -> Wire:
        try:
            wire = await self._wire(BATCHED)
        except StoreUnavailable:
            if self._closed:
                raise asyncio.CancelledError from None
            raise
        if self._closed:
            # A closing lane cancels its task, which asyncio.wait_for may swallow before Python 3.12: once more, here.
            wire.close()
            raise asyncio.CancelledError
        return wire

    async def _open_single(self) -> Wire:
        return await self._wire(SINGLE)

    async def _wire(self, names: Sequence[str], *, listen: Sequence[str] = ()) -> Wire:
        opening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._openings.add(opening)
        try:
            return await Wire.open(
                self.dsn,
                {name: self._queries[name] for name in names},
                application_name=self._application_name(),
                listen=listen,
                connect_timeout_s=self.settings.connect_timeout_s,
            )
        finally:
            self._openings.discard(opening)
            opening.set_result(None)


def checked_id(instance_id: UUID | None) -> UUID:
    """Return the caller's id, or a new one; raises TypeError for anything else."""
    if instance_id is None:
        return new_instance_id()
    if not isinstance(instance_id, UUID):
        raise TypeError(f"instance_id is {instance_id!r}; give a UUID, or ninelives.instance_id_for(key)")
    return instance_id


TERMINAL = frozenset({"Completed", "Failed", "TimedOut", "CompensationFailed", "Terminated"})


def connect(dsn: str, *, schema: str = "ninelives", settings: Settings | None = None) -> Client:
    """Open a client: ``async with connect(dsn) as client``.

    ``dsn`` is a libpq connection string or URL; ``schema`` any legal name, made by ``ninelives migrate``.
    """
    return Client(dsn, schema=schema, settings=settings)
