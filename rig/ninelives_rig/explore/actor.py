"""One explored operation: the store's own code, whose statements are sent when the schedule says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from psycopg.pq.abc import PGresult

from ninelives.store.control import Control
from ninelives.store.lane import Lane
from ninelives.store.rows import Row
from ninelives.wire import Answer, Refusal, Statement, Wire
from ninelives_rig.explore.backend import Backend, Monitor, StatementFailed
from ninelives_rig.explore.stepping import Exchange, SteppedLoop, SteppedWire

START_LOCK = 7_012
CHANNEL = "ninelives_explore"
GATED = b"claim"
"""The block that is held once between its snapshot and its first row lock: it reads and locks in one statement."""

COMMIT, READ = "commit", "commit of reads"
"""What a move is called that sends no statement: the end of a transaction, and of one that has only read."""

READS = frozenset(
    [b"read_choose", b"read_steps", b"read_signals", b"read_intents", b"read_paused", b"known", b"start_existing"]
)
"""Blocks that lock nothing and write nothing."""

_NOTIFY = b"start_notify"


@dataclass(frozen=True, slots=True)
class Hold:
    """A lease as its holder knows it: what it has read with it, and the ``seq`` that its park will name."""

    session: int
    token: int
    seq: int
    signals: frozenset[str] = frozenset()
    steps: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Told:
    """What an operation was told: the kind of answer, the answer, and how many commits there had been by then."""

    letter: str
    kind: str
    answer: str
    commits: int
    token: int = 0
    hold: Hold | None = None
    key: str = ""


@dataclass(slots=True)
class Shared:
    """What the operations of one schedule share: the commits so far, and everything that anyone was told."""

    commits: int = 0
    told: list[Told] = field(default_factory=list)


class Actor:
    """A node or a client of one operation, with its connection, its letter and its place in the schedule."""

    def __init__(
        self,
        letter: str,
        backend: Backend,
        monitor: Monitor,
        loop: SteppedLoop,
        shared: Shared,
        *,
        session: int,
        plan_id: int,
        hold: Hold | None,
    ) -> None:
        self.letter, self.session, self.plan_id, self.hold = letter, session, plan_id, hold
        self.token = 0
        """The token that it acts under at the moment; 0 for who has none."""
        self.loop, self._shared = loop, shared
        self._backend, self._monitor = backend, monitor
        self._queue: deque[Exchange] = deque()
        self._waits_at_gate = False
        self.waits = False
        self.failure: BaseException | None = None
        self.control = Control(self._connect, start_lock=START_LOCK, channel=CHANNEL)
        self._task: asyncio.Task[None] | None = None
        self._lane: Lane | None = None

    async def _connect(self) -> Wire:
        return SteppedWire(self._queue, self.loop)

    def begin(self, operation: Callable[[Actor], Awaitable[None]]) -> None:
        """Let the operation run up to its first statement."""

        async def work() -> None:
            try:
                await operation(self)
            except Exception as error:
                self.failure = error

        self._task = self.loop.create_task(work())

    # -- what operations use

    async def lane(self) -> Lane:
        """Return the lane of this actor's node."""
        if self._lane is None:
            session = self.hold.session if self.hold is not None else self.session
            self._lane = Lane(self._connect, session_id=lambda: session, start_lock=START_LOCK, channel=CHANNEL)
            await self._lane.open()
        return self._lane

    async def write(self, row: Row) -> str:
        """Submit one row to the lane and return its verdict."""
        (await self.lane()).submit(row)
        return str(await row.answered)

    async def ask_texts(self, statements: list[Statement]) -> list[PGresult]:
        """Send one transaction with parameters as texts; raises ``StatementFailed``."""
        answered: asyncio.Future[Answer] = self.loop.create_future()
        SteppedWire(self._queue, self.loop).send_texts(statements, answered.set_result)
        answer = await answered
        if not isinstance(answer, list):
            raise StatementFailed(answer.sqlstate if isinstance(answer, Refusal) else "", answer.message)
        return answer

    def tell(self, kind: str, answer: str, *, token: int = 0, hold: Hold | None = None, key: str = "") -> None:
        """Note what the operation was told."""
        self._shared.told.append(Told(self.letter, kind, answer, self._shared.commits, token, hold, key))

    # -- what the schedule uses

    @property
    def done(self) -> bool:
        """Whether the operation has ended."""
        return self._task is not None and self._task.done()

    @property
    def ready(self) -> bool:
        """Whether it has a statement to send, or a commit."""
        return bool(self._queue) and not self.waits

    @property
    def begins(self) -> bool:
        """Whether its next move begins a transaction."""
        return not self._queue[0].results and not self._waits_at_gate

    def next_move(self) -> str:
        """Name what the next move sends."""
        exchange = self._queue[0]
        rest = exchange.statements[len(exchange.results) :]
        if all(block == _NOTIFY for block, _ in rest):
            only_read = all(block in READS for block, _ in exchange.statements)
            return READ if only_read else COMMIT
        block = rest[0][0]
        if block == GATED:
            return f"{block.decode()}/{'take' if self._waits_at_gate else 'look'}"
        return block.decode()

    def move(self) -> None:
        """Send what is next; ``waits`` is set where it then waits for another operation."""
        exchange = self._queue[0]
        name = self.next_move()
        if name in (COMMIT, READ):
            # A notification locks nothing that matters and is seen at the commit alone: no move of its own.
            while len(exchange.results) < len(exchange.statements):
                self._send(exchange)
                self.observe()
                if exchange not in self._queue:
                    return
            self._backend.commit()
            self._shared.commits += name == COMMIT
            self._answer(exchange.results)
            return
        if self._waits_at_gate:
            self._waits_at_gate = False
            self._monitor.open_gate(self._backend.pid)
        else:
            if not exchange.results:
                self._backend.begin()
            if name.endswith("/look"):
                self._monitor.shut_gate(self._backend.pid)
                self._waits_at_gate = True
            self._send(exchange)
        self.waits = True
        self.observe()
        if self._waits_at_gate and self.waits:
            self.waits = False
        elif self._waits_at_gate:
            # It ended without having come to the gate: nothing was to be had.
            self._waits_at_gate = False
            self._monitor.open_gate(self._backend.pid)

    def observe(self) -> bool:
        """Look whether the statement that is on its way has ended; returns whether it has."""
        exchange = self._queue[0]
        try:
            result = self._backend.observe()
        except StatementFailed as error:
            self._backend.roll_back()
            self.waits = False
            self._answer(Refusal(error.sqlstate, error.message))
            return True
        if result is None:
            return False
        self.waits = False
        exchange.results.append(result)
        return True

    def end(self) -> None:
        """Give up what is not done."""
        if self._waits_at_gate:
            self._monitor.open_gate(self._backend.pid)
        self._backend.roll_back()
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def _send(self, exchange: Exchange) -> None:
        block, parameters = exchange.statements[len(exchange.results)]
        self._backend.send(block, parameters, exchange.binary)

    def _answer(self, answer: list[PGresult] | Refusal) -> None:
        exchange = self._queue.popleft()
        if isinstance(answer, Refusal):
            self.tell("refused", answer.sqlstate, token=self.token)
        exchange.on_answer(answer)
        self.loop.settle()

    def learn(self, *, seq: int | None = None, signals: frozenset[str] | None = None) -> None:
        """Change what the holder knows of its lease."""
        if self.hold is not None:
            self.hold = replace(
                self.hold,
                seq=self.hold.seq if seq is None else seq,
                signals=self.hold.signals if signals is None else signals,
            )
