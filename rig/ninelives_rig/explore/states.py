"""The states in which explorations start, and the operations that can meet in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement

from ninelives_rig.explore.operations import HOLDERS, OPERATIONS
from ninelives_rig.refusal import Refused


@dataclass(frozen=True, slots=True)
class State:
    """How a state is come by: operations of the holder's session and of clients, one behind the other.

    ``meeting`` are the operations that can be under way at once from there.
    """

    history: tuple[str, ...]
    meeting: tuple[str, ...]


def _state(history: str, meeting: str) -> State:
    return State(tuple(history.split()), tuple(meeting.split()))


_HELD = "start claim first"
STATES: Mapping[str, State] = {
    "unborn": _state("", "start start-held born signal claim"),
    "pending": _state("start", "claim turn start start-held signal pause resume"),
    "held": _state(
        _HELD, "commit commit-end commit-park finish intend park release claim signal pause resume start renew die"
    ),
    "signalled": _state("start signal claim first", "consume commit-end release claim turn signal pause die"),
    "dead": _state(
        f"{_HELD} die", "commit commit-end commit-park finish intend park release claim turn signal pause renew die"
    ),
    "dead-signalled": _state("start signal claim first die", "consume commit-end claim turn signal pause"),
    "again": _state(
        "start signal claim first release claim",
        "stale-commit stale-consume stale-park stale-release consume commit park release claim signal pause die",
    ),
    "parked": _state(f"{_HELD} park", "claim turn signal pause resume start settle"),
    "woken": _state(f"{_HELD} park signal", "claim turn signal pause resume"),
    "paused": _state(f"{_HELD} park pause", "claim turn signal pause resume start"),
    "paused-due": _state(f"{_HELD} park pause signal", "claim turn signal pause resume"),
    "paused-held": _state(
        f"{_HELD} pause", "commit commit-end commit-park finish intend park release claim signal resume die"
    ),
    "doubt": _state(f"{_HELD} doubtful park", "settle claim turn signal pause resume"),
    "doubt-held": _state(f"{_HELD} doubtful release claim", "void settle park signal claim pause die"),
    "finished": _state(f"{_HELD} commit-end", "commit commit-end finish start start-held signal pause resume claim"),
}

_TRIPLES = """
    signal+start+turn@unborn signal+born+die@unborn
    claim+signal+pause@pending
    park+signal+claim@held park+die+turn@held park+signal+die@held commit-end+signal+pause@held commit+die+claim@held
    commit+park+claim@dead park+turn+signal@dead consume+turn+signal@dead-signalled
    claim+pause+resume@parked turn+signal+settle@doubt
    claim+resume+signal@paused-due turn+pause+resume@paused-due
    park+resume+signal@paused-held commit-end+resume+signal@paused-held
    stale-park+park+signal@again
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Operations that meet in a state."""

    operations: tuple[str, ...]
    state: str

    def __str__(self) -> str:
        return f"{'+'.join(self.operations)}@{self.state}"

    @property
    def letters(self) -> str:
        """The letters of the operations, in order."""
        return "ABC"[: len(self.operations)]


def parse_case(text: str) -> Case:
    """Read ``claim+signal@parked``; raises ``Refused`` for what is not known."""
    names, _, state = text.partition("@")
    operations = tuple(names.split("+"))
    if state not in STATES:
        raise Refused(f"no state {state!r} in {text!r}; write OPERATION+OPERATION@STATE of {', '.join(STATES)}")
    unknown = [name for name in operations if name not in OPERATIONS or name == ""]
    if unknown:
        raise Refused(f"no operation {unknown[0]!r} in {text!r}; choose of {', '.join(OPERATIONS)}")
    if not 2 <= len(operations) <= 3:
        raise Refused(f"{text!r} names {len(operations)} operations; two or three can meet")
    return Case(operations, state)


def pairs() -> list[Case]:
    """Return every pair of operations that can be under way at once, in every state."""
    return [
        Case((one, other), name)
        for name, state in STATES.items()
        for one, other in combinations_with_replacement(state.meeting, 2)
        if one == other or not {one, other} <= HOLDERS or {one, other} == {"commit", "commit-park"}
    ]


def triples() -> list[Case]:
    """Return the chosen triples."""
    return [parse_case(text) for text in _TRIPLES.split()]
