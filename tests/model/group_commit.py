"""The model of group commit: the batches of two nodes over two instances, judged row by row.

Instance 0 has two parallel branches, instance 1 has one. Node 0 begins as the holder of both; either node may take an
instance over, and each commits all that it has ready in one transaction, which locks its instances one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.model.space import Move, Violation

Key = tuple[int, str]

KEYS: Final[tuple[Key, ...]] = ((0, "a"), (0, "b"), (1, "a"))
INSTANCES: Final = (0, 1)
NODES: Final = (0, 1)
FREE: Final = -1

# bounds
LOST_ANSWER, FALSE_TAKEOVER, FREEZE, ROLLBACK = range(4)


class Row(NamedTuple):
    """A committed step row."""

    key: Key
    token: int
    sequence: int


class Member(NamedTuple):
    """A node: what it holds under which token, what it has to commit, how many locks its transaction has, if any."""

    frozen: bool
    held: tuple[tuple[int, int], ...]
    pending: tuple[tuple[Key, int], ...]
    locked: int | None


class Batches(NamedTuple):
    """A state of both instances and both nodes."""

    fences: tuple[int, int]
    rows: tuple[Row, ...]
    numbers: tuple[int, int]
    locks: tuple[int, int]
    members: tuple[Member, Member]
    bounds: tuple[int, int, int, int]


def _put(pair: tuple[int, int], index: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if index == 0 else (pair[0], value)


class GroupCommit:
    """Batches of two nodes. The switches are mutants: unsorted locks, one verdict for a batch, no sending again."""

    def __init__(self, *, sorted_locks: bool = True, verdict: str = "row", resends: bool = True) -> None:
        self.sorted_locks, self.verdict, self.resends = sorted_locks, verdict, resends

    def initial(self) -> Batches:
        """Return the state in which node 0 holds both instances and has everything to commit."""
        first = Member(False, ((0, 1), (1, 1)), tuple((key, 1) for key in KEYS), None)
        return Batches((1, 1), (), (0, 0), (FREE, FREE), (first, Member(False, (), (), None)), (2, 2, 1, 1))

    def broken(self, state: Batches) -> Violation | None:
        """Every invariant here is one of the commit, and is judged there."""
        return None

    def has_ended(self, state: Batches) -> bool:
        """Tell whether every row is committed."""
        return len(state.rows) == len(KEYS)

    def told(self, state: Batches) -> list[str]:
        """Say what is missing, and who holds which lock."""
        missing = [key for key in KEYS if key not in {row.key for row in state.rows}]
        return [f"not committed: {missing}; locks of the instances: {state.locks}"]

    def moves(self, state: Batches) -> list[Move[Batches]]:
        """Return every step of both nodes."""
        found: list[Move[Batches]] = []
        for n in NODES:
            member = state.members[n]
            if member.frozen:
                found += self._frozen_moves(state, n)
            elif member.locked is not None:
                found += self._transaction_moves(state, n, member.locked)
            else:
                found += self._free_moves(state, n)
        return found

    def _frozen_moves(self, state: Batches, n: int) -> Iterator[Move[Batches]]:
        member = state.members[n]
        yield Move(f"node {n} thaws", False, _member(state, n, member._replace(frozen=False)), None)
        if member.locked is not None:
            ended = _member(_unlocked(state, n), n, member._replace(locked=None))
            yield Move(f"the backend of node {n} is ended", True, ended, None)

    def _transaction_moves(self, state: Batches, n: int, locked: int) -> Iterator[Move[Batches]]:
        member = state.members[n]
        if state.bounds[FREEZE]:
            frozen = _member(_spent(state, FREEZE), n, member._replace(frozen=True))
            yield Move(f"node {n} freezes", False, frozen, None)
        if state.bounds[ROLLBACK]:
            rolled = _member(_spent(_unlocked(state, n), ROLLBACK), n, member._replace(locked=None))
            yield Move(f"the transaction of node {n} is rolled back", False, rolled, None)
        order = self._order(n, member)
        if locked == len(order):
            yield from self._commit_moves(state, n)
        elif state.locks[order[locked]] == FREE:
            i = order[locked]
            taken = state._replace(locks=_put(state.locks, i, n))
            yield Move(
                f"node {n} locks instance {i}", True, _member(taken, n, member._replace(locked=locked + 1)), None
            )

    def _order(self, n: int, member: Member) -> list[int]:
        ids = sorted({key[0] for key, _ in member.pending})
        return ids if self.sorted_locks or n == 0 else ids[::-1]

    def _commit_moves(self, state: Batches, n: int) -> Iterator[Move[Batches]]:
        """Judge every row by its own fence, number what goes in, commit; or lose the answer and send again."""
        member = state.members[n]
        committed, held = {row.key: row for row in state.rows}, dict(member.held)
        numbers = [*state.numbers]
        for key, token in member.pending:
            i = key[0]
            if self._is_refused(state, member, i, token):
                held.pop(i, None)
                continue
            if token != state.fences[i]:
                yield _violation(n, "I1", "a stale row was accepted in a batch")
                return
            before = committed.get(key)
            if before is not None:
                if before.token != token:
                    yield _violation(n, "I2", "a step was committed under two tokens")
                    return
                continue
            numbers[i] += 1
            committed[key] = Row(key, token, numbers[i])
        for i in INSTANCES:
            if sorted(row.sequence for row in committed.values() if row.key[0] == i) != [*range(1, numbers[i] + 1)]:
                yield _violation(n, "I12", "sequence numbers are not dense")
                return
        written = _unlocked(state, n)._replace(
            rows=tuple(sorted(committed.values())), numbers=(numbers[0], numbers[1])
        )
        going_on = tuple(
            sorted((i, token) for i, token in held.items() if any(k[0] == i and k not in committed for k in KEYS))
        )
        yield Move(f"node {n} commits", True, _member(written, n, Member(False, going_on, (), None)), None)
        if state.bounds[LOST_ANSWER]:
            again = member._replace(pending=member.pending if self.resends else (), locked=None)
            lost = _member(_spent(written, LOST_ANSWER), n, again)
            yield Move(f"node {n} commits, its answer lost", False, lost, None)

    def _is_refused(self, state: Batches, member: Member, i: int, token: int) -> bool:
        if self.verdict == "row":
            return state.fences[i] != token
        (first, _), first_token = member.pending[0]
        return state.fences[first] != first_token

    def _free_moves(self, state: Batches, n: int) -> Iterator[Move[Batches]]:
        member = state.members[n]
        if member.pending:
            yield Move(f"node {n} begins a batch", True, _member(state, n, member._replace(locked=0)), None)
        committed = {row.key for row in state.rows}
        other = state.members[1 - n]
        for i in INSTANCES:
            open_keys = [key for key in KEYS if key[0] == i and key not in committed]
            if i in dict(member.held) or state.locks[i] != FREE or not open_keys:
                continue
            is_fair = dict(other.held).get(i) != state.fences[i] or other.frozen
            if not is_fair and not state.bounds[FALSE_TAKEOVER]:
                continue
            token = state.fences[i] + 1
            kept = tuple(entry for entry in member.pending if entry[0][0] != i)
            holder = Member(False, (*member.held, (i, token)), (*kept, *((key, token) for key in open_keys)), None)
            taken = state._replace(fences=_put(state.fences, i, token))
            target = _member(taken if is_fair else _spent(taken, FALSE_TAKEOVER), n, holder)
            yield Move(f"node {n} takes over instance {i}", is_fair, target, None)


def _member(state: Batches, n: int, member: Member) -> Batches:
    return state._replace(members=(member, state.members[1]) if n == 0 else (state.members[0], member))


def _unlocked(state: Batches, n: int) -> Batches:
    first, second = (FREE if owner == n else owner for owner in state.locks)
    return state._replace(locks=(first, second))


def _spent(state: Batches, bound: int) -> Batches:
    a, b, c, d = (left - (at == bound) for at, left in enumerate(state.bounds))
    return state._replace(bounds=(a, b, c, d))


def _violation(n: int, invariant: str, what: str) -> Move[Batches]:
    return Move(f"node {n} commits", True, None, Violation(invariant, what))


class GroupMutant(NamedTuple):
    """One switch of group commit turned round, and what it has to violate; `steps` is the length of the script."""

    number: str
    what: str
    invariant: str
    steps: int
    space: GroupCommit


STATES, TRANSITIONS = 13_860, 36_803
"""What a whole exploration of group commit counts."""

MUTANTS: Final = (
    GroupMutant("M24", "batches lock in the order of arrival", "L1", 6, GroupCommit(sorted_locks=False)),
    GroupMutant("M25", "one verdict for a batch", "I1", 5, GroupCommit(verdict="batch")),
    GroupMutant("M26", "a batch without an answer is not sent again", "L1", 7, GroupCommit(resends=False)),
)
