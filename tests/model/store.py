"""The model of the store protocol: one configuration, put together from what everybody in it may do."""

from __future__ import annotations

from tests.model.clients import client_moves
from tests.model.effects import landing_moves
from tests.model.faults import server_moves, session_moves
from tests.model.invariants import broken, has_ended
from tests.model.moves import Moves
from tests.model.nodes import node_moves
from tests.model.rows import NOBODY, RUN_ATS, STATES
from tests.model.setting import Setting, node_of
from tests.model.space import Move, Violation
from tests.model.state import State, initial
from tests.model.transactions import late_moves
from tests.model.workers import clock_moves, task_moves


class Store:
    """A configuration of the store protocol as a space to explore."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def initial(self) -> State:
        """Return the state in which nothing has been started and every node is up."""
        return initial(self.setting)

    def moves(self, state: State) -> list[Move[State]]:
        """Return every step that nodes, sessions, clocks, clients, workers and servers may take."""
        moves = Moves(self.setting, state)
        node_moves(moves)
        session_moves(moves)
        late_moves(moves)
        clock_moves(moves)
        client_moves(moves)
        landing_moves(moves)
        task_moves(moves)
        server_moves(moves)
        return moves.found

    def broken(self, state: State) -> Violation | None:
        """Return the invariant of states that does not hold, if one does not."""
        return broken(self.setting, state)

    def has_ended(self, state: State) -> bool:
        """Tell whether every instance is terminal."""
        return has_ended(self.setting, state)

    def told(self, state: State) -> list[str]:
        """Say how every instance stands."""
        return [
            f"instance {i} is {STATES[row.state]}, {'paused, ' * row.paused}"
            f"{'unheld' if row.holder == NOBODY else f'held by node {node_of(row.holder)}'}, "
            f"run_at {RUN_ATS[row.run_at]}, seq {row.seq}, seen_seq {row.seen_seq}"
            for i, row in enumerate(state.instances)
        ]
