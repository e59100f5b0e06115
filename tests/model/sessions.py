"""The model of sessions over restarts of the server: who is declared dead, and whether everything held comes free.

A session is a row and an advisory lock on a connection of its own. A restart of the server takes every lock and every
connection away. In the store a session ends with its connection, and its node opens another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from tests.model.space import Move, Violation

NODES: Final = (0, 1)
NONE: Final = -1


class Row(NamedTuple):
    """A session: its node, the run of the server that it was opened on, and what became of it."""

    node: int
    run: int
    locked: bool
    expired: bool
    dead: bool


class Sessions(NamedTuple):
    """A state: the server's run, and whether it has been up for a TTL; each node's present session, or none if down.

    ``opening`` is the node whose session is half open. ``deaths`` and ``restarts`` are how many more may come.
    """

    run: int
    is_settled: bool
    present: tuple[int, int]
    is_up: tuple[bool, bool]
    opening: int
    rows: tuple[Row, ...]
    deaths: int
    restarts: int


class SessionRules(NamedTuple):
    """``survives``: a session outlives its connection, without a lock. ``lock_counts``: whose missing lock is a death.

    ``expiry``: when time that ran out is judged. ``earlier_runs_are_dead``: a session of an earlier run is at once.
    """

    survives: bool = False
    lock_counts: Literal["this run", "any run"] = "this run"
    expiry: Literal["a TTL after the start", "always"] = "always"
    earlier_runs_are_dead: bool = True
    opens: Literal["lock, then row", "row, then lock"] = "lock, then row"


class SessionDeath:
    """Two nodes, their deaths and those of the server."""

    def __init__(self, rules: SessionRules) -> None:
        self.rules = rules

    def initial(self) -> Sessions:
        """Return the state in which both nodes have a session."""
        rows = tuple(Row(node, 1, True, False, False) for node in NODES)
        return Sessions(1, True, (0, 1), (True, True), NONE, rows, 1, 1)

    def broken(self, state: Sessions) -> Violation | None:
        """What must hold is judged where a session is declared dead."""
        return None

    def has_ended(self, state: Sessions) -> bool:
        """Tell whether both nodes live under a session, and every other session is dead: all that was held is free."""
        return all(state.is_up) and all(
            not row.dead if k in state.present else row.dead for k, row in enumerate(state.rows)
        )

    def told(self, state: Sessions) -> list[str]:
        """Say what is left."""
        return [f"session {k} of node {row.node}: {row}" for k, row in enumerate(state.rows) if not row.dead]

    def moves(self, state: Sessions) -> list[Move[Sessions]]:
        """Return every step of nodes, server and clock."""
        found = [*self._server_moves(state)]
        for node in NODES:
            found += self._node_moves(state, node)
        for k, row in enumerate(state.rows):
            if not row.dead:
                found += self._session_moves(state, k, row)
        return found

    def _server_moves(self, state: Sessions) -> Iterator[Move[Sessions]]:
        if not state.is_settled:
            yield Move("a TTL has passed since the server's start", True, state._replace(is_settled=True), None)
        if state.restarts:
            yield Move("the server restarts", False, self._restarted(state), None)

    def _restarted(self, state: Sessions) -> Sessions:
        rows = tuple(row._replace(locked=False) for row in state.rows)
        return state._replace(run=state.run + 1, is_settled=False, rows=rows, restarts=state.restarts - 1)

    def _node_moves(self, state: Sessions, node: int) -> Iterator[Move[Sessions]]:
        k = state.present[node]
        row = state.rows[k]
        if state.is_up[node] and state.deaths:
            down = _with(state, k, row._replace(locked=False))._replace(deaths=state.deaths - 1)
            yield Move(f"node {node} dies", False, down._replace(is_up=_put(state.is_up, node, False)), None)
        if state.opening == node and state.is_up[node]:
            yield Move(f"node {node} takes its session's lock", True, self._locked(state, k), None)
        elif state.opening == NONE and (not state.is_up[node] or self._is_over(row)):
            yield Move(f"node {node} opens a session", True, self._opened(state, node), None)

    def _is_over(self, row: Row) -> bool:
        """Tell whether a living node's session is over, as the node sees it."""
        return row.dead or row.expired or (not row.locked and not self.rules.survives)

    def _opened(self, state: Sessions, node: int) -> Sessions:
        at_once = self.rules.opens == "lock, then row"
        opened = state._replace(
            present=(len(state.rows), state.present[1]) if node == 0 else (state.present[0], len(state.rows)),
            is_up=_put(state.is_up, node, True),
            opening=NONE if at_once else node,
            rows=(*state.rows, Row(node, state.run, at_once, False, False)),
        )
        return _forgotten(opened)

    def _locked(self, state: Sessions, k: int) -> Sessions:
        row = state.rows[k]
        return _with(state, k, row._replace(locked=row.run == state.run))._replace(opening=NONE)

    def _session_moves(self, state: Sessions, k: int, row: Row) -> Iterator[Move[Sessions]]:
        is_present = state.present[row.node] == k and state.is_up[row.node]
        is_renewed = is_present and not self._is_over(row)
        if not is_renewed and not row.expired and state.opening != row.node:
            yield Move(f"session {k} expires", True, _with(state, k, row._replace(expired=True)), None)
        if self._is_judged_dead(state, row) and any(state.is_up[node] for node in NODES):
            label = f"session {k} of node {row.node} is declared dead"
            if is_renewed or (is_present and state.opening == row.node):
                yield Move(label, True, None, Violation("S1", "a session was declared dead that its node renews"))
            else:
                yield Move(label, True, _forgotten(_with(state, k, row._replace(dead=True))), None)

    def _is_judged_dead(self, state: Sessions, row: Row) -> bool:
        rules, of_this_run = self.rules, row.run == state.run
        if row.expired and (state.is_settled or rules.expiry == "always"):
            return True
        if rules.earlier_runs_are_dead and not of_this_run:
            return True
        return not row.locked and (of_this_run or rules.lock_counts == "any run")


def _put(pair: tuple[bool, bool], node: int, value: bool) -> tuple[bool, bool]:
    return (value, pair[1]) if node == 0 else (pair[0], value)


def _with(state: Sessions, k: int, row: Row) -> Sessions:
    return state._replace(rows=(*state.rows[:k], row, *state.rows[k + 1 :]))


def _forgotten(state: Sessions) -> Sessions:
    """Drop what is dead and nobody's present session: nothing can happen to it any more."""
    kept = [k for k, row in enumerate(state.rows) if not row.dead or k in state.present]
    first, second = (kept.index(k) for k in state.present)
    return state._replace(present=(first, second), rows=tuple(state.rows[k] for k in kept))


class SessionCase(NamedTuple):
    """A set of rules with the invariant that it breaks, none if the name is empty."""

    name: str
    rules: SessionRules
    invariant: str = ""


CASES: Final = (
    SessionCase("sessions as the store has them", SessionRules()),
    SessionCase("expiry is judged a TTL after a restart", SessionRules(expiry="a TTL after the start")),
    SessionCase("sessions of earlier runs wait for their expiry", SessionRules(earlier_runs_are_dead=False)),
    SessionCase("a session outlives its connection", SessionRules(survives=True), "S1"),
    SessionCase("the same, earlier runs wait for their expiry", SessionRules(True, earlier_runs_are_dead=False)),
    SessionCase("a lock counts for any run", SessionRules(True, "any run", earlier_runs_are_dead=False), "S1"),
    SessionCase("the row is inserted before the lock is taken", SessionRules(opens="row, then lock"), "S1"),
)
