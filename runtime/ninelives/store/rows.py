"""What the node hands to the store: one small row for each thing that an instance asks to have written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What became of one row of a batch."""

    COMMITTED = "committed"
    DUPLICATE = "duplicate"
    FENCED = "fenced"
    TERMINAL = "terminal"
    PAUSED = "paused"
    ABSORBED = "absorbed"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    """The server refused the values of this row; the row's ``error`` says why."""


class Row:
    """Base of the rows: the instance, its token, and the future that the answer settles."""

    __slots__ = ("answered", "error", "instance_id", "resent", "token")

    def __init__(self, instance_id: bytes, token: int, answered: asyncio.Future[str]) -> None:
        self.instance_id = instance_id
        self.token = token
        self.answered = answered
        self.resent = False
        self.error = ""

    def settle(self, verdict: str) -> None:
        """Give the waiting activation its answer."""
        if not self.answered.done():
            self.answered.set_result(verdict)


class StepCommit(Row):
    """One attempt of one step, ready for the journal; with ``finish`` it also ends the instance."""

    __slots__ = (
        "attempt", "capability_id", "capability_version", "careful", "duration_ms", "finish",
        "finish_result", "frontier", "nondeterministic", "observed_pause", "outcome", "result", "retry_ms",
        "scope", "settles", "signal_id", "step_id",
    )  # fmt: skip

    def __init__(
        self, instance_id: bytes, token: int, answered: asyncio.Future[str], scope: bytes, step_id: int,
        attempt: int, capability_id: bytes, capability_version: bytes, outcome: bytes, result: bytes | None,
        nondeterministic: bytes | None, duration_ms: int,
    ) -> None:  # fmt: skip
        self.instance_id = instance_id
        self.token = token
        self.answered = answered
        self.resent = False
        self.error = ""
        self.scope = scope
        self.step_id = step_id
        self.attempt = attempt
        self.capability_id = capability_id
        self.capability_version = capability_version
        self.outcome = outcome
        self.result = result
        self.nondeterministic = nondeterministic
        self.duration_ms = duration_ms
        self.retry_ms = -1
        self.frontier: bytes | None = None
        self.finish: bytes | None = None
        self.finish_result: bytes | None = None
        self.signal_id: bytes | None = None
        self.settles: bytes | None = None
        self.careful = False
        self.observed_pause = False


class Intend(Row):
    """The announcement of an at_most_once effect."""

    __slots__ = ("attempt", "idempotency_key", "scope", "step_id")

    def __init__(
        self, instance_id: bytes, token: int, answered: asyncio.Future[str], scope: bytes, step_id: int,
        attempt: int, idempotency_key: bytes,
    ) -> None:  # fmt: skip
        Row.__init__(self, instance_id, token, answered)
        self.scope = scope
        self.step_id = step_id
        self.attempt = attempt
        self.idempotency_key = idempotency_key


class Finish(Row):
    """An end without a step row."""

    __slots__ = ("result", "state")

    def __init__(
        self, instance_id: bytes, token: int, answered: asyncio.Future[str], state: bytes, result: bytes
    ) -> None:
        Row.__init__(self, instance_id, token, answered)
        self.state = state
        self.result = result


class Park(Row):
    """A rest until ``delay_ms`` from now (-1: until woken), unless the wake moved past ``seq``."""

    __slots__ = ("current_seq", "delay_ms", "seq")

    def __init__(
        self, instance_id: bytes, token: int, answered: asyncio.Future[str], seq: int, delay_ms: int
    ) -> None:
        Row.__init__(self, instance_id, token, answered)
        self.seq = seq
        self.delay_ms = delay_ms
        self.current_seq = seq


class Release(Row):
    """A lease given back, due at once; ``counts`` keeps its claim in the count that finds poison."""

    __slots__ = ("counts",)

    def __init__(
        self, instance_id: bytes, token: int, answered: asyncio.Future[str], counts: bool = False
    ) -> None:
        Row.__init__(self, instance_id, token, answered)
        self.counts = counts


class Start(Row):
    """A durable start; ``token`` is filled in where the lease is taken with it."""

    __slots__ = ("deadline_ms", "flow_id", "flow_version", "hold", "input", "plan_id", "state")

    def __init__(
        self, instance_id: bytes, answered: asyncio.Future[str], plan_id: int, flow_id: bytes,
        flow_version: bytes, input: bytes, deadline_ms: int, hold: bool,
    ) -> None:  # fmt: skip
        Row.__init__(self, instance_id, 0, answered)
        self.plan_id = plan_id
        self.flow_id = flow_id
        self.flow_version = flow_version
        self.input = input
        self.deadline_ms = deadline_ms
        self.hold = hold
        self.state = ""


@dataclass(slots=True)
class Claimed:
    """A lease taken: everything a node needs to go on from the frontier.

    Nobody changes one; it is not frozen because freezing makes building it four times as dear.
    """

    instance_id: bytes
    plan_id: int
    token: int
    seq: int
    claims: int
    state: str
    input: bytes
    frontier: bytes | None
    deadline_in_ms: int
    takeover: bool
    steps: tuple[StepRead, ...] = ()
    signals: tuple[SignalRead, ...] = ()
    intents: tuple[IntentRead, ...] = ()
    paused: bool = False
    lost: bool = False
    """A read found another token, the end, or nothing."""


@dataclass(slots=True)
class StepRead:
    """A journal row as read back; result and captures still encoded. Not frozen for the reason of ``Claimed``."""

    scope: str
    step_id: int
    attempt: int
    sequence: int
    outcome: str
    result: bytes | None
    nondeterministic: bytes | None
    retry_in_ms: int


@dataclass(frozen=True, slots=True)
class SignalRead:
    """An unconsumed signal; payload still encoded."""

    signal_id: str
    name: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class IntentRead:
    """An intent met in the journal."""

    scope: str
    step_id: int
    attempt: int
    token: int
    outcome: str | None
