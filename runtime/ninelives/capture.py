"""What a body is given, and the capture that makes its clock, ids and random numbers repeat on a retry."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION_4 = 0x4 << 76
_VERSION_4_CLEAR = ~(0xF << 76 | 0b11 << 62)
_VARIANT = 0b10 << 62


class Capture:
    """The sources of non-determinism of one attempt: captured on first use, replayed on a retry.

    `recorded` is what earlier attempts dumped (None for the first), `clock_us` returns the database's time in
    microseconds since 1970, `random_bits(k)` returns k random bits. A recorded 0 is a value; absent is not.
    """

    __slots__ = ("_clock_us", "_ids_made", "_random", "_random_bits", "_values", "used")

    def __init__(
        self,
        recorded: dict[str, Any] | None,
        clock_us: Callable[[], int],
        random_bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._values: dict[str, Any] = dict(recorded) if recorded else {}
        self._clock_us = clock_us
        self._random_bits = random_bits
        self._random: Random | None = None
        self._ids_made = 0
        self.used = False

    def now(self) -> datetime:
        """Return the time of the first call in this step, in UTC; later calls and attempts get the same."""
        self.used = True
        at_us = self._values.get("now")
        if at_us is None:
            at_us = self._values["now"] = self._clock_us()
        return _EPOCH + timedelta(microseconds=at_us)

    def new_id(self) -> UUID:
        """Return a new UUID; the k-th call gets the same one in every attempt."""
        self.used = True
        text = self._values.get("id")
        if text is None:
            first = UUID(int=self._random_bits(128) & _VERSION_4_CLEAR | _VERSION_4 | _VARIANT)
            self._values["id"] = str(first)
        else:
            first = UUID(text)
        made = self._ids_made
        self._ids_made = made + 1
        return first if made == 0 else uuid5(first, str(made))

    def random(self) -> Random:
        """Return this step's random generator; its sequence is the same in every attempt."""
        self.used = True
        generator = self._random
        if generator is None:
            seed = self._values.get("seed")
            if seed is None:
                seed = self._values["seed"] = self._random_bits(63)
            generator = self._random = Random(seed)
        return generator

    def dump(self) -> dict[str, Any] | None:
        """Return what to record with this attempt, earlier attempts' values included; None when unused."""
        return dict(self._values) if self.used else None


class Call:
    """What a body gets as its first argument: who it is, its key, and repeatable clock, ids and randomness.

    `attempt` counts from 1, `token` is the fencing token of the holder, `voids` how many intents were voided.
    """

    __slots__ = (
        "_capture",
        "_clock_us",
        "_connection",
        "_recorded",
        "attempt",
        "instance_id",
        "scope",
        "step_id",
        "step_name",
        "token",
        "voids",
    )

    def __init__(
        self,
        instance_id: UUID,
        scope: str,
        step_id: int,
        step_name: str,
        attempt: int,
        token: int,
        clock_us: Callable[[], int],
        voids: int = 0,
        recorded: dict[str, Any] | None = None,
        connection: Any = None,
    ) -> None:
        self.instance_id = instance_id
        self.scope = scope
        self.step_id = step_id
        self.step_name = step_name
        self.attempt = attempt
        self.token = token
        self.voids = voids
        self._clock_us = clock_us
        self._recorded = recorded
        self._connection = connection
        self._capture: Capture | None = None

    @property
    def idempotency_key(self) -> str:
        """The key to give to the outside system: the same over attempts and resumes, new after a void."""
        return idempotency_key(self.instance_id, self.scope, self.step_id, self.voids)

    @property
    def connection(self) -> Any:
        """The open transaction of a transactional step. Raises RuntimeError in a step of any other effect."""
        if self._connection is None:
            raise RuntimeError(
                f"step {self.step_name!r} is not transactional and has no connection; declare its capability "
                f"with effect=Transactional, or use a connection of your own"
            )
        return self._connection

    def now(self) -> datetime:
        """Return the database's time at the first use in this step, in UTC; a retry gets the same."""
        return self._captured().now()

    def new_id(self) -> UUID:
        """Return a new UUID; the k-th call gets the same one in every attempt."""
        return self._captured().new_id()

    def random(self) -> Random:
        """Return this step's random generator; a retry gets the same sequence."""
        return self._captured().random()

    def dump(self) -> dict[str, Any] | None:
        """Return what must be recorded with this attempt, None when the body used no non-determinism."""
        return None if self._capture is None else self._capture.dump()

    def _captured(self) -> Capture:
        capture = self._capture
        if capture is None:
            capture = self._capture = Capture(self._recorded, self._clock_us)
        return capture

    def __repr__(self) -> str:
        return f"<call {self.idempotency_key} {self.step_name!r} attempt {self.attempt} token {self.token}>"


def idempotency_key(instance_id: UUID, scope: str, step_id: int, voids: int = 0) -> str:
    """Build the key of a step's effect: `instance/scope/step`, plus `/voidN` after the N-th void."""
    key = f"{instance_id}/{scope}/{step_id}"
    return f"{key}/void{voids}" if voids else key
