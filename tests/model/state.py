"""A state of the whole: database, row locks, memories of activations, the world outside, what may still fail."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.rows import (
    ABSENT,
    AHEAD,
    COMPLETED,
    DUE,
    IDLE,
    NOBODY,
    PENDING,
    UP,
    Instance,
    InstanceRow,
    Late,
    Session,
    Slot,
    SlotRow,
    empty_slot,
)
from tests.model.setting import Setting, node_of, session_id
from tests.model.space import Violation

# signals
NOT_SENT, ACCEPTED, CONSUMED, ACCEPTED_TWICE = range(4)
# timers
UNARMED, ARMED, FIRED = range(3)
# task.status
NO_TASK, SCHEDULED, LEASED, REPORTED, SEEN, CANCELLED = range(6)
# an effect outside, by its key, which is the token that sent it: bits
ON_ITS_WAY, LANDED, VOIDED = 1, 2, 4
KEYS = 8


class Task(NamedTuple):
    """The task row; ``doomed`` is a reclaimer's stale decision to reset it (a mutant's)."""

    status: int
    token: int
    doomed: int


class Redis(NamedTuple):
    """The lease of instance 0 in Redis: whose it is, and the counter that a flush sets back."""

    holder: int
    counter: int


class State(NamedTuple):
    """Everything that distinguishes one moment from another."""

    instances: tuple[Instance, ...]
    slots: tuple[Slot, ...]
    sessions: tuple[Session, ...]
    locks: tuple[int, ...]
    signals: tuple[int, ...]
    timers: tuple[int, ...]
    task: Task
    workers: tuple[int, ...]
    effects: tuple[int, ...]
    client: int
    bounds: tuple[int, ...]
    redis: Redis
    late: Late | None


def initial(setting: Setting) -> State:
    """Return the state in which nothing has been started and every node is up."""
    return State(
        instances=tuple(
            Instance(ABSENT, 0, 0, 0, 0, 0, 0, 0, NOBODY, 0, 0, 0, 0, 0, 0, (0,) * len(plan.steps))
            for plan in setting.plans
        ),
        slots=(empty_slot(UP, 1),) * (setting.nodes * setting.slots),
        sessions=(Session(1, True),) * setting.nodes,
        locks=(NOBODY,) * (2 * len(setting.plans)) if setting.at_locks else (),
        signals=(NOT_SENT,) * setting.signals,
        timers=(UNARMED,) * len(setting.plans[0].steps),
        task=Task(NO_TASK, 0, 0),
        workers=(0, 0),
        effects=(0,) * KEYS if setting.has_effects else (),
        client=0,
        bounds=setting.bounds,
        redis=Redis(NOBODY, 0),
        late=None,
    )


def put(row: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    """Return ``row`` with one value replaced."""
    return (*row[:index], value, *row[index + 1 :])


def is_alive(sessions: tuple[Session, ...], holder: int) -> bool:
    """Tell whether that session is its node's newest and not declared dead."""
    session = sessions[node_of(holder)]
    return session.alive and session_id(node_of(holder), session.generation) == holder


def is_due(setting: Setting, sessions: tuple[Session, ...], row: Instance | InstanceRow) -> bool:
    """Tell whether a wake is due: unheld and its time has come, or held by a dead session. Nothing else is."""
    if not row.wake:
        return False
    due = setting.rules.due
    if due == "run_at only":
        return row.run_at == DUE
    if row.holder != NOBODY:
        return due != "swept once" and not is_alive(sessions, row.holder)
    return row.run_at == DUE


def is_free(state: State, rows: tuple[int, ...]) -> bool:
    """Tell whether no open transaction holds any of these row locks."""
    locks = state.locks
    return not locks or all(locks[row] == NOBODY for row in rows)


class Draft:
    """A state that a step is changing; rows turn from tuples into writable rows when they are first asked for."""

    __slots__ = ("setting", *State._fields)

    late: Late | None
    locks: tuple[int, ...]
    signals: tuple[int, ...]
    timers: tuple[int, ...]
    task: Task
    workers: tuple[int, ...]
    effects: tuple[int, ...]
    client: int
    bounds: tuple[int, ...]
    redis: Redis
    sessions: tuple[Session, ...]

    def __init__(self, setting: Setting, state: State) -> None:
        self.setting = setting
        (
            instances, slots, self.sessions, self.locks, self.signals, self.timers, self.task, self.workers,
            self.effects, self.client, self.bounds, self.redis, self.late,
        ) = state  # fmt: skip
        self.instances: list[Instance | InstanceRow] = [*instances]
        self.slots: list[Slot | SlotRow] = [*slots]

    def instance(self, i: int) -> InstanceRow:
        """Return the rows of an instance for writing."""
        row = self.instances[i]
        if isinstance(row, Instance):
            row = self.instances[i] = InstanceRow(row)
        return row

    def slot(self, a: int) -> SlotRow:
        """Return a slot for writing."""
        row = self.slots[a]
        if isinstance(row, Slot):
            row = self.slots[a] = SlotRow(row)
        return row

    def node(self, a: int) -> int:
        """Return the node that a slot belongs to."""
        return a // self.setting.slots

    def spend(self, fault: int) -> None:
        """One fault of that kind less may happen."""
        self.bounds = put(self.bounds, fault, self.bounds[fault] - 1)

    def insert(self, i: int) -> None:
        """Insert an instance and its wake, due at once."""
        row = self.instance(i)
        row.state, row.wake, row.seq, row.run_at = PENDING, 1, 1, DUE
        row.deadline = AHEAD if self.setting.deadline else 0

    def wake(self, i: int) -> None:
        """Bump the wake of an instance: always, and make it due if nobody holds it."""
        row = self.instance(i)
        if not row.wake:
            return
        rules = self.setting.rules
        if rules.waker == "skips pending" and (row.holder != NOBODY or row.run_at == DUE):
            return
        row.seq += 1
        if rules.due == "run_at only" or row.holder == NOBODY:
            row.run_at = DUE

    def change_state(self, i: int, state: int) -> None:
        """Set the state of an instance that is not terminal."""
        row = self.instance(i)
        if row.state >= COMPLETED:
            raise Violation("I6", "a terminal state changed")
        row.state = state

    def give_back_redis(self, a: int, session: int) -> None:
        """Delete the Redis lease if it is still this session's own."""
        if self.setting.rules.in_redis and self.redis.holder == session_id(self.node(a), session):
            self.redis = self.redis._replace(holder=NOBODY)

    def forget(self, a: int) -> None:
        """The slot loses its activation; nothing is written."""
        row = self.slots[a]
        self.slots[a] = empty_slot(row.mode, row.generation)

    def drop(self, a: int) -> None:
        """The slot drops its activation; a Redis lease that is still its own goes back."""
        if self.setting.rules.fenced_holder_gives_back:
            self.give_back_redis(a, self.slots[a].session)
        self.forget(a)

    def unlock(self, a: int) -> None:
        """The open transaction of a slot is over."""
        self.locks = tuple(NOBODY if owner == a else owner for owner in self.locks)
        slot = self.slot(a)
        slot.transaction, slot.locked = None, 0

    def sealed(self) -> State:
        """Return the state, with wake sequences counted from what is still remembered of them."""
        for i, row in enumerate(self.instances):
            if row.wake:
                if row.seen_seq:
                    self._rebase(i, row.seen_seq)
            elif row.state >= COMPLETED and isinstance(row, InstanceRow):
                row.seq = row.seen_seq = row.run_at = 0
        return State(
            tuple([row if isinstance(row, Instance) else row.frozen() for row in self.instances]),
            tuple([row if isinstance(row, Slot) else row.frozen() for row in self.slots]),
            self.sessions, self.locks, self.signals, self.timers, self.task, self.workers,
            self.effects, self.client, self.bounds, self.redis, self.late,
        )  # fmt: skip

    def _rebase(self, i: int, base: int) -> None:
        """Subtract what every remembered sequence has passed, so that the number of states stays finite."""
        if self.late is not None:
            return
        reading = [a for a, slot in enumerate(self.slots) if slot.phase != IDLE and slot.instance == i]
        base = min([base, *(self.slots[a].seq for a in reading)])
        if base:
            row = self.instance(i)
            row.seq -= base
            row.seen_seq -= base
            for a in reading:
                self.slot(a).seq -= base
