"""The records of a state: what the database holds, and what each activation remembers.

Each comes in two forms with the same names: a tuple, which is part of an explored state, and a row with slots, which
an operation writes to.
"""

from __future__ import annotations

from typing import NamedTuple

# instance.state
ABSENT, PENDING, RUNNING, SUSPENDED, COMPLETED, TERMINATED, TIMED_OUT = range(7)
STATES = ("Absent", "Pending", "Running", "Suspended", "Completed", "Terminated", "TimedOut")

# wake.run_at; the end of a lease is a run_at only where leases are kept in Redis
NULL, DUE, FUTURE, LEASE_END = range(4)
RUN_ATS = ("null", "due", "later", "at the lease's end")

# what the journal holds of a step: nothing, its row, or an intent under a token
NO_ROW, COMMITTED, INTENT_OF = 0, 2, 10

# the deadline of an instance
NO_DEADLINE, AHEAD, PASSED = range(3)

# the process of a slot
UP, FROZEN, DOWN = range(3)

# what a slot does: nothing, has looked at a due wake, holds a Redis lease, holds the lease unread, runs
IDLE, JUDGED, FENCE, READ, RUN = range(5)

# what an activation has of a step: nothing, a result, an intent to commit, the permission, an effect on its way
NOTHING, RESULT, INTENT, PERMITTED, SENT = range(5)

NOBODY = -1


class Known(NamedTuple):
    """What an activation read behind its claim, brought up to date by its own commits."""

    steps: tuple[int, ...]
    signals: tuple[int, ...]
    timers: tuple[int, ...]
    task: int
    states: tuple[int, ...]


class Instance(NamedTuple):
    """The rows ``instance``, ``wake`` and ``lease`` of one instance, and the journal's rows of its steps.

    ``serial``, ``highest`` and ``saw_pause`` are ghosts, known to the invariants alone: which claim is the newest, the
    greatest token ever minted, and whether the newest holder has seen the pause.
    """

    state: int
    paused: int
    fence: int
    token: int
    wake: int
    seq: int
    seen_seq: int
    run_at: int
    holder: int
    serial: int
    highest: int
    saw_pause: int
    reports: int
    rows: int
    deadline: int
    steps: tuple[int, ...]


class InstanceRow:
    """An instance that an operation writes to."""

    __slots__ = Instance._fields

    state: int
    paused: int
    fence: int
    token: int
    wake: int
    seq: int
    seen_seq: int
    run_at: int
    holder: int
    serial: int
    highest: int
    saw_pause: int
    reports: int
    rows: int
    deadline: int
    steps: tuple[int, ...]

    def __init__(self, row: Instance) -> None:
        (
            self.state, self.paused, self.fence, self.token, self.wake, self.seq, self.seen_seq, self.run_at,
            self.holder, self.serial, self.highest, self.saw_pause, self.reports, self.rows, self.deadline, self.steps,
        ) = row  # fmt: skip

    def frozen(self) -> Instance:
        """Return the tuple."""
        return Instance(
            self.state, self.paused, self.fence, self.token, self.wake, self.seq, self.seen_seq, self.run_at,
            self.holder, self.serial, self.highest, self.saw_pause, self.reports, self.rows, self.deadline, self.steps,
        )  # fmt: skip

    def rest(self) -> None:
        """Nobody holds it, and only a waker makes it due."""
        self.holder, self.run_at = NOBODY, NULL

    def due_now(self) -> None:
        """Nobody holds it, and it is due."""
        self.holder, self.run_at = NOBODY, DUE


class Slot(NamedTuple):
    """A place for one activation on a node, with the node's condition, which all slots of a node share.

    ``generation`` is the node's incarnation, ``session`` the one under which this activation claimed.
    ``transaction`` is the operation in hand where operations are split at their locks, ``locked`` how many it has.
    """

    mode: int
    generation: int
    phase: int
    instance: int
    token: int
    serial: int
    seq: int
    saw_pause: int
    session: int
    transaction: tuple[str, int] | None
    locked: int
    known: Known | None
    branches: tuple[int, ...]


class SlotRow:
    """A slot that an operation writes to."""

    __slots__ = Slot._fields

    mode: int
    generation: int
    phase: int
    instance: int
    token: int
    serial: int
    seq: int
    saw_pause: int
    session: int
    transaction: tuple[str, int] | None
    locked: int
    known: Known | None
    branches: tuple[int, ...]

    def __init__(self, row: Slot) -> None:
        (
            self.mode, self.generation, self.phase, self.instance, self.token, self.serial, self.seq, self.saw_pause,
            self.session, self.transaction, self.locked, self.known, self.branches,
        ) = row  # fmt: skip

    def frozen(self) -> Slot:
        """Return the tuple."""
        return Slot(
            self.mode, self.generation, self.phase, self.instance, self.token, self.serial, self.seq, self.saw_pause,
            self.session, self.transaction, self.locked, self.known, self.branches,
        )  # fmt: skip


def empty_slot(mode: int, generation: int) -> Slot:
    """Return a slot without an activation."""
    return Slot(mode, generation, IDLE, NOBODY, 0, 0, 0, 0, 0, None, 0, None, ())


class Session(NamedTuple):
    """The newest session of a node."""

    generation: int
    alive: bool


class Late(NamedTuple):
    """A request whose connection was cut and which the server may still execute: who sent it, knowing what."""

    operation: str
    instance: int
    slot: int
    memory: Slot
