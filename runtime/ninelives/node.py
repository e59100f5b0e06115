"""A node: one process that claims due instances, runs their activations, and gives them back when it leaves."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

import psycopg

from ninelives import codec
from ninelives.activation import Activation
from ninelives.boundaries import Boundary, reached
from ninelives.claimer import Claimer
from ninelives.client import SINGLE, Client, Handle, checked_id
from ninelives.collector import tune_collector
from ninelives.errors import NinelivesError, StoreUnavailable
from ninelives.flow import Flow
from ninelives.migrate import require_schema
from ninelives.outstanding import Outstanding
from ninelives.plan import Plan
from ninelives.registry import Registry
from ninelives.session import Outage, Session
from ninelives.settings import Settings
from ninelives.store.rows import Claimed, Release, Start
from ninelives.transactions import Connection, Transactions
from ninelives.watch import Watch
from ninelives.wire import SESSION_SETTINGS_DURABLE, Wire

log = logging.getLogger("ninelives.node")

GIVE_BACK_AFTER_S = 1.0
CANCELLED_S = 1.0
RENEW_DELAYS_S = (0.05, 1.0)


class Node(Client):
    """Run ``flows`` for one schema; also a client, whose starts it runs itself.

    ``async with Node(dsn, flows=[...]) as node: await node.run()`` serves until SIGTERM or SIGINT. Several nodes share
    nothing but the database. ``name`` is for people; what identifies a node is its session.
    """

    def __init__(
        self,
        dsn: str,
        *,
        flows: Iterable[Flow | Plan],
        schema: str = "ninelives",
        settings: Settings | None = None,
        name: str = "node",
    ) -> None:
        super().__init__(dsn, schema=schema, settings=settings)
        self.name = name
        self.registry = Registry(flows)
        self.transactions = Transactions(self._open_transaction, self._queries, self.settings.transactions_max)
        self._plans: dict[int, Plan] = {}
        self._session: Session | None = None
        self._session_channel = f"{self._channel}_s"
        self._watch: Watch | None = None
        self._activations: dict[bytes, Activation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: set[asyncio.Task[None]] = set()
        self.outstanding = Outstanding()
        self._starting = 0
        self._leaving = False
        self._renewing = False
        self._suspect: Activation | None = None
        self._stop = asyncio.Event()
        self.finished = 0

    # -- life

    async def open(self) -> None:
        """Check, connect, open a session, register the plans, and begin to watch and to claim."""
        self._loop = asyncio.get_running_loop()
        self._claimer = Claimer(self)
        try:
            session = await self._open_under_session()
        except StoreUnavailable as error:
            # The server was there a moment ago: a session that is declared dead takes its new connections with it.
            log.warning("opened again under another session: %s", error)
            session = await self._open_under_session()
        self._watch = Watch(
            self.dsn, self._queries, self.settings, lambda: self.session_id, self._session_channel, self._on_death
        )
        self._watch.open()
        if session.lost:
            self._begin_again(session)
        for loop in (self._claimer.run, self._audit_loop):
            self._loops.add(self._loop.create_task(loop()))

    async def _open_under_session(self) -> Session:
        self._session = session = await self._open_session()
        try:
            await super().open()
            for plan in self.registry.plans:
                self._plans[await self.register(plan)] = plan
        except BaseException:
            await asyncio.to_thread(session.close)
            raise
        return session

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain within ``drain_s`` and return."""
        tune_collector()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop.set)
        try:
            await self._stop.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.remove_signal_handler(number)
        await self.drain()

    async def drain(self) -> None:
        """Stop claiming, let steps in flight end within ``drain_s``, and give every lease back, due at once."""
        self._leaving = True
        self._claimer.wake()
        late = (await asyncio.wait(self._tasks, timeout=self.settings.drain_s))[1] if self._tasks else ()
        for task in list(self._tasks):
            task.cancel()
        left = [activation for activation in self._activations.values() if activation.holding]
        rows = [Release(a.instance_id.bytes, a.token, self._loop.create_future()) for a in left]
        for row in rows:
            self.submit(row)
        if rows:
            over = f"did not end within the drain budget of {self.settings.drain_s:.1f} s"
            log.warning("%d steps %s", len(rows), over if late else "were interrupted; their leases are given back")
            await asyncio.wait([row.answered for row in rows], timeout=self.settings.connect_timeout_s)

    async def close(self) -> None:
        """Drain, say goodbye, close."""
        if not self._leaving:
            await self.drain()
        loops = list(self._loops)
        for task in loops:
            task.cancel()
        # Awaited, so that none of them opens a connection behind the closing below.
        await asyncio.gather(*loops, return_exceptions=True)
        if self._watch is not None:
            await asyncio.to_thread(self._watch.close)
        if self._session is not None:
            await asyncio.to_thread(self._session.close)
        await self.transactions.close()
        await super().close()
        if self._tasks:  # cancelled by the drain; a body may swallow that
            await asyncio.wait(self._tasks, timeout=CANCELLED_S)

    # -- what activations need

    @property
    def session_id(self) -> int:
        """The present session; 0 between the loss of one and the opening of the next, when nothing may start."""
        assert self._session is not None
        return 0 if self._session.lost else self._session.session_id

    @property
    def leaving(self) -> bool:
        """Whether the node is giving its leases back."""
        return self._leaving

    @property
    def in_flight(self) -> int:
        """Activations at work."""
        return len(self._activations)

    @property
    def takeovers(self) -> int:
        """How many instances this node took over from dead ones."""
        return self._claimer.takeovers

    @property
    def plan_ids(self) -> Collection[int]:
        """The numbers of the plans that this node carries."""
        return self._plans.keys()

    @property
    def suspected(self) -> bool:
        """Whether an instance that may be poison is at work."""
        return self._suspect is not None

    @property
    def room(self) -> int:
        """How many more instances this node takes; negative after takeovers."""
        return self.settings.in_flight_max - self.in_flight - self._starting

    def clock_us(self) -> int:
        """The database's clock in microseconds since 1970."""
        assert self._session is not None
        return self._session.clock_us()

    # -- work

    async def start(self, flow: Flow | Plan, input: Any = None, *, instance_id: UUID | None = None) -> Handle:
        """Start ``flow`` durably and run it here, in one transaction, while there is room; see ``Client.start``."""
        plan = flow.plan if isinstance(flow, Flow) else flow
        plan_id = await self.register(plan)
        if self._leaving or self.room <= self._claimer.asked or plan_id not in self._plans:
            return await self._start(plan.flow_id, plan.version, plan_id, plan.deadline_s, input, instance_id)
        instance_id = checked_id(instance_id)
        row = self._start_row(plan.flow_id, plan.version, plan_id, plan.deadline_s, input, instance_id, hold=True)
        self._starting += 1
        claim = self.outstanding.begin()
        try:
            session_id = self.session_id
            if await self._started(row, instance_id) == "held" and session_id == self.session_id:
                self.activate(_born(row), instance_id)
        finally:
            self.outstanding.end(claim)
            self._starting -= 1
        return Handle(self, instance_id)

    async def await_end(self, instance_id: UUID) -> tuple[str, Any]:
        """Wait for the end; what runs here is not asked of the database."""
        activation = self._activations.get(instance_id.bytes)
        if activation is not None:
            await activation.closed()
            if activation.ended is not None:
                return activation.ended, codec.decode(activation.result or b"null")
        return await super().await_end(instance_id)

    def activate(self, claimed: Claimed, instance_id: UUID | None = None) -> None:
        """Run a claimed instance."""
        activation = Activation(self, self._plans[claimed.plan_id], claimed, instance_id)
        self._activations[claimed.instance_id] = activation
        if claimed.claims > self.settings.suspicious_claims:
            self._suspect = activation
        activation.task = task = self._loop.create_task(self._run(activation))
        self._tasks.add(task)

    async def _run(self, activation: Activation) -> None:
        """Run one activation; an error of ours gives the lease back instead of keeping it for ever."""
        try:
            await activation.run()
        except asyncio.CancelledError:
            if self._leaving:
                return
            log.error("activation of %s was cancelled by its own step; its lease is given back", activation.instance_id)
            await self._give_back(activation, counts=True)
        except StoreUnavailable as error:
            log.warning("activation of %s: %s; its lease is given back", activation.instance_id, error)
            await self._give_back(activation, counts=False)
        except Exception:
            log.exception("activation of %s failed; its lease is given back", activation.instance_id)
            await self._give_back(activation, counts=True)
        finally:
            activation.close()
            if activation.task is not None:
                self._tasks.discard(activation.task)
        self.progressed(activation)
        self.finished += activation.ended is not None
        key = activation.instance_id.bytes
        if self._activations.get(key) is activation:
            del self._activations[key]
        self._claimer.room_made()

    def progressed(self, activation: Activation) -> None:
        """A suspect that commits is none; the next one may be claimed."""
        if activation is self._suspect:
            self._suspect = None
            self._claimer.wake_for_orphans()

    async def _give_back(self, activation: Activation, *, counts: bool) -> None:
        """Give back a lease that an error ended, not at once; a step's own fault counts towards poison."""
        await asyncio.sleep(GIVE_BACK_AFTER_S)
        row = Release(activation.instance_id.bytes, activation.token, self._loop.create_future(), counts)
        self.submit(row)
        await row.answered

    async def _audit_loop(self) -> None:
        """Give back what the store says is held here and nobody here knows: a claim whose answer was lost."""
        suspects: dict[tuple[bytes, int], int] = {}
        outage = Outage(log, logging.INFO)
        while not self._leaving:
            await asyncio.sleep(self.settings.renew_s)
            try:
                held = await self.control.held(self.session_id)
            except NinelivesError as error:
                outage.goes_on("no audit this time: %s", error)
                continue
            outage.is_over("audits go on")
            # Marked behind the read: a claim sent before the list was read may have put an entry into it.
            mark = self.outstanding.mark()
            unknown = {key for key in held if not self._knows(*key)}
            ripe = [key for key in unknown if self.outstanding.settled_before(suspects.get(key))]
            suspects = {key: suspects.get(key, mark) for key in unknown if key not in ripe}
            for instance_id, token in ripe:
                log.warning("the claim of %s was never answered; lease given back", UUID(bytes=instance_id))
                self.submit(Release(instance_id, token, self._loop.create_future()))

    def _knows(self, instance_id: bytes, token: int) -> bool:
        activation = self._activations.get(instance_id)
        return activation is not None and activation.token == token

    # -- sessions

    async def _open_session(self) -> Session:
        session = Session(
            self.dsn, self._queries, self.name, self.settings, self._on_session_lost,
            check=lambda connection: require_schema(connection, self.schema), channel=self._session_channel,
        )  # fmt: skip
        opening = asyncio.ensure_future(asyncio.to_thread(session.open))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on by itself; a session that it opens must not outlive its node.
            session.abandon()
            await asyncio.wait([opening])
            await asyncio.to_thread(session.close)
            raise
        reached(Boundary.SESSION_OPENED, None, "", 0, 0, 0)
        return session

    def _on_session_lost(self, session: Session) -> None:
        self._loop.call_soon_threadsafe(self._begin_again, session)

    def _begin_again(self, session: Session) -> None:
        if session is self._session and not self._leaving and not self._renewing:
            self._renewing = True
            task = self._loop.create_task(self._renew_session())
            self._loops.add(task)
            task.add_done_callback(self._loops.discard)

    async def _renew_session(self) -> None:
        """The session is dead: a new one, under which nothing of the old one is held."""
        delay_s, delay_s_max = RENEW_DELAYS_S
        outage = Outage(log, logging.WARNING)
        while not self._leaving:
            try:
                self._session = await self._open_session()
                if not self._session.lost:
                    outage.is_over("session %d is open", self._session.session_id)
                    break
            except Exception as error:
                outage.goes_on("no session yet: %s", error)
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s_max, delay_s * 2)
        self._renewing = False
        for lane in self._lanes:
            lane.renew_connection()
        self.control.renew_connection()
        self._claimer.wake()

    def _on_death(self, session_id: int) -> None:
        self._loop.call_soon_threadsafe(self._claimer.wake_for_orphans)

    # -- connections

    def _application_name(self) -> str:
        assert self._session is not None
        return self._session.application_name

    def _lane_session(self) -> int:
        return self.session_id

    async def _check_schema(self) -> None:
        """The session has checked it, on its own connection."""

    async def _open_lanes(self, count: int) -> None:
        await super()._open_lanes(self.settings.lanes)

    async def _open_single(self) -> Wire:
        return await self._wire(SINGLE, listen=(self._channel, self._session_channel))

    def _on_notify(self, channel: str) -> None:
        """Something is due, or a session was opened or died."""
        if channel != self._session_channel:
            self._claimer.wake()
            return
        if self._watch is not None:
            self._watch.ring_changed()
        self._claimer.wake_for_orphans()

    async def _open_transaction(self) -> Connection:
        try:
            connection = await psycopg.AsyncConnection[tuple[object, ...]].connect(
                self.dsn,
                application_name=self._application_name(),
                connect_timeout=self.settings.connect_timeout_s,
                cursor_factory=psycopg.AsyncRawCursor,
            )
            await connection.execute(SESSION_SETTINGS_DURABLE.encode())
            # The body may take its time between two statements; what ends it is its own time-out.
            await connection.execute(b"set idle_in_transaction_session_timeout = 0")
            await connection.commit()
        except psycopg.OperationalError as error:
            raise StoreUnavailable(str(error).strip()) from error
        return connection


def _born(row: Start) -> Claimed:
    """The lease that came with a start; seq 0, so that its first park reads what was sent before the start."""
    return Claimed(
        instance_id=row.instance_id, plan_id=row.plan_id, token=row.token, seq=0, claims=1, state="Running",
        input=row.input, frontier=None, deadline_in_ms=row.deadline_ms or -1, takeover=False,
    )  # fmt: skip
