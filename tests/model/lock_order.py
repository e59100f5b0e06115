"""The model of lock waits (L2): operations as the lists of rows that they lock, any three of them at a time.

A row is named by a letter and an id: w the wake, i the instance, l the lease, t the task. P is the parent of C, and Q,
whose id is greater than its child's, the parent of D. An operation takes its locks in order, waits for one that is
held, and lets all of them go at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Final, NamedTuple

from tests.model.explore import explore
from tests.model.space import Move, Violation

P, C, D, Q = 1, 2, 3, 4


class Operation(NamedTuple):
    """One operation. ``locks`` are waited for; those that begin with ``?`` are skipped when they are held.

    ``s`` in front is the start lock: ``s+`` shared, ``s!`` exclusive.
    """

    name: str
    locks: tuple[str, ...]


def _operation(name: str, *locks: str) -> Operation:
    return Operation(name, locks)


def _instances(*ids: int) -> tuple[str, ...]:
    return tuple(f"i{number}" for number in sorted(ids))


def _wakes(*ids: int) -> tuple[str, ...]:
    return tuple(f"w{number}" for number in sorted(ids))


# The operations of the protocol, tasks and children included.
PROTOCOL: Final = (
    _operation("claim P", "w1", "i1"),
    _operation("claim C", "w2", "i2"),
    _operation("claim Q", "w4", "i4"),
    _operation("claim D", "w3", "i3"),
    _operation("signal P", "w1"),
    _operation("report a task of P", "w1", "t1"),
    _operation("reclaim a task of P", "t1"),
    _operation("finish C", "w1", "w2", "i2", "t2"),
    _operation("finish D", "w3", "w4", "i3"),
    _operation("finish P", "w1", "i1", "t1"),
    _operation("terminate Q", "w4", "i4"),
    _operation("commit a batch of P, C, D", *_instances(P, C, D)),
    _operation("commit a batch of D, Q, P", *_instances(D, Q, P)),
    _operation("commit P and finish C, D in one batch", *_wakes(P, C, D, Q), *_instances(P, C, D), "t2"),
    _operation("finish Q, C in one batch, superseded", *_wakes(P, C, Q), *_instances(C, Q)),
    _operation("schedule a task of P", "i1", "t1"),
    _operation("terminate P, cancel its task", "w1", "i1", "t1"),
)

# The operations that the store has now, as its statements lock. A claim takes wakes as they come, but waits for none.
STORE: Final = (
    _operation("start P, C", "s+", "n1", "n2"),
    _operation("start C, D, held", "s+", "n2", "n3", "l2", "l3"),
    _operation("signal for D before its start", "s!", "w3"),
    _operation("claim C, P", "?w2", "?w1", "i1", "i2", "l1", "l2"),
    _operation("claim D, C", "?w3", "?w2", "i2", "i3", "l2", "l3"),
    _operation("commit a batch of P, C", "i1", "i2"),
    _operation("commit a batch of C, D", "i2", "i3"),
    _operation("commit P and finish C, D", "w2", "w3", "i1", "i2", "i3", "l2", "l3"),
    _operation("finish P, C", "w1", "w2", "i1", "i2", "l1", "l2"),
    _operation("intend, doubt or void of C", "i2"),
    _operation("transactional step of D, the last", "w3", "i3", "l3"),
    _operation("park P, D", "w1", "w3", "i1", "i3", "l1", "l3"),
    _operation("release C, D", "w2", "w3", "i2", "i3", "l2", "l3"),
    _operation("signal C", "w2"),
    _operation("pause, resume or settle P", "w1", "i1"),
    _operation("renew session 1", "n11"),
    _operation("look over sessions", "?n11", "?n12"),
)


class OrderMutant(NamedTuple):
    """Operations that lock in another order than the rule says, and block each other."""

    name: str
    operations: tuple[Operation, ...]


MUTANTS: Final = (
    OrderMutant("batches lock unsorted", (_operation("a batch", "i1", "i2"), _operation("another", "i2", "i1"))),
    OrderMutant(
        "a commit locks wakes behind instances",
        (_operation("commit, then wake", "i1", "w1"), _operation("claim", "w1", "i1")),
    ),
    OrderMutant(
        "an end locks its parent's wake last, beside a batch of claims",
        (_operation("finish C", "w2", "i2", "w1"), _operation("claim P, C", "w1", "w2", "i1", "i2")),
    ),
    OrderMutant(
        "an end locks its parent's wake last, beside a batch of ends",
        (_operation("finish D", "w3", "i3", "w1"), _operation("finish P, D, superseded", "w1", "w3", "i1", "i3")),
    ),
    OrderMutant(
        "a reclaim that fails a task for good locks the task first",
        (_operation("reclaim, attempts used up", "t1", "w1"), _operation("report", "w1", "t1")),
    ),
    OrderMutant(
        "a batch locks what it commits before the wakes of what it ends",
        (_operation("commit P, finish C", "i1", "i2", "w2"), _operation("claim C", "w2", "i2")),
    ),
    OrderMutant(
        "a reclaim of several tasks is unsorted",
        (_operation("reclaim", "t2", "t1"), _operation("finish cancels", "w1", "i1", "t1", "t2")),
    ),
    OrderMutant(
        "an operator's resume locks the instance first",
        (_operation("resume", "i1", "w1"), _operation("claim", "w1", "i1")),
    ),
)


class LockOrder:
    """Some operations, each at its own point; a state says how many locks each has asked for, and 0 before that."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = tuple(operations)

    def initial(self) -> tuple[int, ...]:
        """Return the state in which none has begun."""
        return (0,) * len(self.operations)

    def moves(self, state: tuple[int, ...]) -> list[Move[tuple[int, ...]]]:
        """Return the next step of each operation that does not wait."""
        found = []
        for a, (operation, at) in enumerate(zip(self.operations, state, strict=True)):
            if at > len(operation.locks):
                continue
            target = (*state[:a], at + 1, *state[a + 1 :])
            if at == len(operation.locks):
                found.append(Move(f"{operation.name}: ends", True, target, None))
            elif not self._must_wait(state, a, operation.locks[at]):
                found.append(Move(f"{operation.name}: locks {operation.locks[at]}", True, target, None))
        return found

    def _must_wait(self, state: tuple[int, ...], a: int, lock: str) -> bool:
        if lock.startswith("?"):
            return False
        for b, (operation, at) in enumerate(zip(self.operations, state, strict=True)):
            if b == a or at > len(operation.locks):
                continue
            if any(_conflict(lock, held) for held in operation.locks[:at]):
                return True
        return False

    def broken(self, state: tuple[int, ...]) -> Violation | None:
        """Nobody can go on, and not everybody is done: a cycle of waits."""
        if not self.has_ended(state) and not self.moves(state):
            return Violation("L2", "operations wait for each other")
        return None

    def has_ended(self, state: tuple[int, ...]) -> bool:
        """Tell whether every operation is done."""
        return all(at > len(operation.locks) for operation, at in zip(self.operations, state, strict=True))

    def told(self, state: tuple[int, ...]) -> list[str]:
        """Say which locks each holds."""
        return [f"{op.name} has {op.locks[:at]}" for op, at in zip(self.operations, state, strict=True)]


def _conflict(lock: str, held: str) -> bool:
    """Two locks of one row conflict, except that the start lock may be shared.

    A lock that is skipped when held counts as held by whoever may have got it.
    """
    held = held.removeprefix("?")
    if lock[0] == held[0] == "s":
        return "!" in lock + held
    return lock == held


class Triples(NamedTuple):
    """What the exploration of all triples counted, and the first cycle."""

    triples: int
    states: int
    cycle: tuple[str, ...]


def explore_triples(operations: Iterable[Operation]) -> Triples:
    """Explore any three operations, the same one several times included."""
    triples = states = 0
    for chosen in combinations_with_replacement(sorted(operations), 3):
        outcome = explore(LockOrder(chosen))
        triples, states = triples + 1, states + outcome.states
        if outcome.violation is not None:
            return Triples(triples, states, outcome.script)
    return Triples(triples, states, ())
