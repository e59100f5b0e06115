"""One execution of a step: the call that its body gets, the time it may take, and the row that it becomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from ninelives import codec
from ninelives.boundaries import Boundary, reached
from ninelives.capture import Call, idempotency_key
from ninelives.decide import RunStep
from ninelives.errors import PayloadRefused, StepFailed, StepTimedOut
from ninelives.frontier import Unread
from ninelives.recall import Recall
from ninelives.state import value_for
from ninelives.store.rows import StepCommit

SUCCESS: Final = b"Success"
FAILURE: Final = b"Failure"
_UNBOUNDED: Final = 1 << 30


class Attempt:
    """An attempt of ``command`` by the holder of ``token``; ``limit_bytes`` bounds what it may leave behind."""

    __slots__ = ("_began_ns", "_given", "_instance_id", "_limit_bytes", "_recall", "call", "command", "token")

    def __init__(
        self,
        instance_id: UUID,
        token: int,
        command: RunStep,
        recall: Recall,
        clock_us: Callable[[], int],
        limit_bytes: int,
        connection: Any = None,
    ) -> None:
        node = command.node
        recorded = recall.frontier.captured(command.scope, node.step_id) if command.attempt > 1 else None
        self._instance_id = instance_id
        self._recall = recall
        self._limit_bytes = limit_bytes
        self._began_ns = time.monotonic_ns()
        self._given: tuple[Any] | None = None
        self.token = token
        self.command = command
        self.call = Call(
            instance_id, command.scope, node.step_id, node.name, command.attempt, token, clock_us, command.voids,
            recorded, connection,
        )  # fmt: skip

    async def given(self) -> Any:
        """Return the step's input; raises whatever the flow's selector raises, before anything is announced.

        A selector that asks for a result from before the snapshot is called again when that has been read.
        """
        while self._given is None:
            try:
                self._given = (self._select(),)
            except Unread as missing:
                await self._recall.read(missing)
        return self._given[0]

    def _select(self) -> Any:
        node = self.command.node
        try:
            return value_for(node, self._recall.plan, self._recall.frontier, self.call.scope)
        except (Exception, KeyboardInterrupt, Unread):
            raise
        except BaseException as error:
            raise StepFailed(node.name, self.command.attempt, f"input= raised {error!r}, no Exception") from error

    async def run(self) -> Any:
        """Run the capability's body with the step's input, within its time-out and the flow's deadline.

        Raises whatever the body raises, and ``StepTimedOut``.
        """
        node, call = self.command.node, self.call
        value = await self.given() if self._given or callable(node.input) else self._select()
        limit_s = self._limit_s()
        reached(Boundary.BODY_ENTERED, self._instance_id, call.scope, node.step_id, call.attempt, self.token)
        try:
            if limit_s is None:
                result = await node.capability.body(call, value)
            else:
                async with asyncio.timeout(limit_s) as limit:
                    result = await node.capability.body(call, value)
        except TimeoutError as error:
            if limit_s is not None and limit.expired():
                raise StepTimedOut.after(node.name, call.attempt, limit_s) from error
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this activation: something inside the body was, and that is the body's failure.
            raise StepFailed(node.name, call.attempt, "cancelled from within; see what the body awaits") from error
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            # sys.exit() too: a library that gives up on its own command line must not end a node with all its flows.
            raise StepFailed(node.name, call.attempt, f"raised {error!r}, no Exception") from error
        reached(Boundary.BODY_RETURNED, self._instance_id, call.scope, node.step_id, call.attempt, self.token)
        return result

    def success(self, result: Any) -> StepCommit:
        """Return the row of a success; raises ``PayloadRefused`` for a result that cannot be stored."""
        encoded = codec.encode(
            result, limit_bytes=self._limit_bytes, what=f"result of step {self.command.node.name!r}"
        )
        return self._row(SUCCESS, encoded)

    def failure(self, error: BaseException) -> tuple[StepCommit, dict[str, Any]]:
        """Return the row of a failed attempt with the time of the next one, and the error as it is recorded."""
        described = _described(error)
        if isinstance(error, PayloadRefused):
            described["permanent"] = True
        row = self._row(FAILURE, codec.encode(described, limit_bytes=_UNBOUNDED, what="error"))
        command, policy = self.command, self.command.node.retry
        if command.attempt - command.voids < policy.attempts_max and not described.get("permanent"):
            key = idempotency_key(self._instance_id, command.scope, command.node.step_id)
            row.retry_ms = policy.delay_ms(command.attempt, key)
        return row, described

    def _row(self, outcome: bytes, result: bytes) -> StepCommit:
        node, capability = self.command.node, self.command.node.capability
        captured = self.call.dump()
        return StepCommit(
            self._instance_id.bytes, self.token, asyncio.get_running_loop().create_future(),
            self.command.scope.encode(), node.step_id, self.command.attempt, capability.id.encode(),
            capability.version.encode(), outcome, result,
            None if captured is None else codec.encode(captured, limit_bytes=_UNBOUNDED, what="captures"),
            (time.monotonic_ns() - self._began_ns) // 1_000_000,
        )  # fmt: skip

    def _limit_s(self) -> float | None:
        limit_s, left_ms = self.command.node.timeout_s, self._recall.left_ms()
        if left_ms is None:
            return limit_s
        return left_ms / 1000 if limit_s is None else min(limit_s, left_ms / 1000)


def _described(error: BaseException) -> dict[str, Any]:
    """Describe an error within bounds; of a long text both ends, for what a tool says last is often the reason."""
    described = codec.error_text(error)
    try:
        text = "".join(str(error))
    except Exception:  # described has said so
        return described
    if not text:
        described["message"] = f"raised {described['type']} without a text"
    elif len(text) > codec.ERROR_TEXT_CHARS_MAX:
        half = codec.ERROR_TEXT_CHARS_MAX // 2
        ends = codec.printable(text[:half]), codec.printable(text[-half:])
        described["message"] = f" ... ({len(text) - 2 * half} characters cut) ... ".join(ends)
    return described
