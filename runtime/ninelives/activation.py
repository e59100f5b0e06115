"""The activation loop: what a node does with one instance while it holds the lease.

    claimed -> read -> decide -> (announce) -> run the body -> commit -> decide -> ... -> finish, or park

Nothing behind a commit happens before the server has acknowledged it. An activation that learns that its token is
stale drops everything and compensates nothing: another node may have moved the instance forward.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from ninelives import codec
from ninelives.attempt import SUCCESS, Attempt
from ninelives.boundaries import Boundary, reached
from ninelives.capability import AtMostOnce, Done, Voided
from ninelives.decide import Complete, Decision, Fail, Reconcile, RunStep, WaitSignal
from ninelives.errors import NinelivesError, PermanentError, StepFailed, StoreUnavailable
from ninelives.frontier import IntentRow, Unread
from ninelives.host import Host
from ninelives.plan import AwaitSignal, Plan, Step
from ninelives.recall import Recall
from ninelives.store.rows import (
    Claimed,
    Finish,
    Intend,
    Park,
    Release,
    Row,
    StepCommit,
    Verdict,
)

log = logging.getLogger("ninelives.activation")

WAIT_IN_NODE_MS_MAX = 1000
_COMMITTED = b"committed"


class Activation:
    """One lease of one instance, from its claim to its end, rest, release or loss."""

    def __init__(self, host: Host, plan: Plan, claimed: Claimed, instance_id: UUID | None = None) -> None:
        self._host = host
        self._plan = plan
        self._claimed = claimed
        self._session_id = host.session_id
        self._loop = asyncio.get_running_loop()
        self.instance_id = instance_id or UUID(bytes=claimed.instance_id)
        self.token = claimed.token
        self.holding = True
        self.task: asyncio.Task[None] | None = None
        self.ended: str | None = None
        self.result: bytes | None = None
        self._watchers: list[asyncio.Future[None]] = []
        self._recall = Recall(plan, claimed, self._read_results)

    def closed(self) -> asyncio.Future[None]:
        """Return a future of the caller's own that is done when this activation is over."""
        watcher = self._loop.create_future()
        self._watchers.append(watcher)
        return watcher

    def close(self) -> None:
        """Tell whoever waits that this activation is over."""
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def run(self) -> None:
        """Drive the instance until it ends, rests, is given back, or the lease is lost."""
        reached(Boundary.CLAIM_COMMITTED, self.instance_id, "", 0, 0, self.token)
        if self._claimed.claims > self._host.settings.claims_max:
            await self._finish("Failed", _poison(self._claimed.claims - 1))
        decision = self._recall.decide()
        while self.holding:
            if self._session_id != self._host.session_id:
                self._lose()
            elif self._host.leaving:
                await self._release()
            elif not decision.commands:
                decision = await self._rest(-1)
            else:
                decision = await self._perform(decision.commands[0])

    def _perform(self, command: object) -> Awaitable[Decision]:
        match command:
            case RunStep():
                return self._step(command)
            case WaitSignal():
                return self._signal(command.node)
            case Reconcile():
                return self._reconcile(command.node, command.scope, command.attempt, command.voids)
            case Complete():
                return self._complete()
            case Fail():
                return self._finish(command.state, command.error)
        raise NotImplementedError(f"this release cannot perform {command!r}; a newer node can")

    async def _read_results(self, keys: Sequence[tuple[str, int]]) -> list[tuple[str, int, bytes | None]]:
        return await self._host.control.results(self._claimed.instance_id, keys)

    # -- steps

    def _step(self, command: RunStep) -> Awaitable[Decision]:
        if command.delay_ms > 0:
            return self._delay(command)
        kind = command.node.capability.effect.kind
        if kind == "idempotent":
            return self._idempotent(command)
        if kind == "at_most_once":
            return self._at_most_once(command)
        return self._transactional(command)

    async def _delay(self, command: RunStep) -> Decision:
        """Wait for a retry: a short one here, a long one parked; one past the deadline not at all."""
        left_ms = self._recall.left_ms()
        if left_ms is not None and left_ms <= command.delay_ms:
            return self._recall.decide(deadline_passed=True)
        if command.delay_ms > WAIT_IN_NODE_MS_MAX:
            return await self._rest(command.delay_ms)
        await asyncio.sleep(command.delay_ms / 1000)
        return await self._step(RunStep(command.node, command.scope, command.attempt, command.voids, 0))

    async def _idempotent(self, command: RunStep) -> Decision:
        attempt = self._attempt(command)
        try:
            row = attempt.success(await attempt.run())
        except Exception as error:
            return await self._failed(attempt, error)
        return await self._commit(row, self._recall.succeed(row))

    async def _at_most_once(self, command: RunStep) -> Decision:
        """Announce, run, commit; a body that neither returns nor says "it did not happen" leaves a doubt."""
        attempt = self._attempt(command)
        try:
            await attempt.given()
        except Exception as error:
            return await self._failed(attempt, error)
        refusal = await self._announce(attempt)
        if refusal is not None:
            return refusal
        try:
            result = await attempt.run()
        except PermanentError as error:
            return await self._failed(attempt, error, settles=_COMMITTED)
        except Exception as error:
            log.warning("%s: the effect of %s is in doubt: %s", self.instance_id, command.node.name, error)
            return await self._reconcile(command.node, command.scope, command.attempt, command.voids, error)
        return await self._settled(attempt, result, _COMMITTED)

    async def _announce(self, attempt: Attempt) -> Decision | None:
        """Commit the intent; ``None`` is the permission, which only the insert's own answer gives."""
        command = attempt.command
        row = Intend(
            self._claimed.instance_id, self.token, self._loop.create_future(), command.scope.encode(),
            command.node.step_id, command.attempt, attempt.call.idempotency_key.encode(),
        )  # fmt: skip
        verdict = await self._write(row)
        if verdict == "accepted" or (verdict == "exists under this token" and row.resent):
            reached(
                Boundary.INTENT_COMMITTED, self.instance_id, command.scope, command.node.step_id, command.attempt,
                self.token,
            )  # fmt: skip
            return None
        if verdict == Verdict.PAUSED:
            return await self._rest(-1)
        if verdict in (Verdict.FENCED, Verdict.TERMINAL):
            return self._refused(verdict)
        return await self._again()

    async def _settled(self, attempt: Attempt, result: Any, settles: bytes) -> Decision:
        """Commit a success together with the outcome of its intent."""
        try:
            row = attempt.success(result)
        except NinelivesError as error:
            return await self._failed(attempt, error, settles=settles)
        row.settles = settles
        return await self._commit(row, self._recall.succeed(row))

    async def _transactional(self, command: RunStep) -> Decision:
        """Run the body in a transaction that also commits the step row and checks the fence."""
        failure: Exception | None = None
        async with self._host.transactions.open() as connection:
            attempt = self._attempt(command, connection)
            try:
                row = attempt.success(await attempt.run())
            except Exception as error:
                failure = error
            else:
                reached(
                    Boundary.TRANSACTION_PREPARED, self.instance_id, command.scope, command.node.step_id,
                    command.attempt, self.token,
                )  # fmt: skip
                decision = self._recall.succeed(row)
                verdict = await self._host.transactions.commit(connection, row)
        if failure is not None:
            return await self._failed(attempt, failure)
        if verdict == Verdict.COMMITTED:
            return self._committed(row, decision) or await self._rest(-1)
        if verdict in (Verdict.FENCED, Verdict.TERMINAL):
            return self._refused(verdict)
        if verdict == Verdict.PAUSED:
            return await self._rest(-1)
        present = await self._again()
        if verdict != Verdict.REFUSED or not self.holding:
            return present
        return await self._failed(attempt, StepFailed(command.node.name, command.attempt, row.error))

    async def _failed(self, attempt: Attempt, error: Exception, settles: bytes | None = None) -> Decision:
        """Commit a failed attempt: a row of its own."""
        row, described = attempt.failure(error)
        row.settles = settles
        self._recall.fail(row, described)
        return await self._commit(row, self._recall.decide())

    def _attempt(self, command: RunStep, connection: Any = None) -> Attempt:
        host = self._host
        return Attempt(
            self.instance_id, self.token, command, self._recall, host.clock_us, host.settings.payload_limit_bytes,
            connection,
        )  # fmt: skip

    # -- waits

    async def _signal(self, node: AwaitSignal) -> Decision:
        """Consume the first signal of that name with the wait's own step row, or rest until one comes."""
        for signal in self._claimed.signals:
            if signal.name == node.name:
                row = StepCommit(
                    self._claimed.instance_id, self.token, self._loop.create_future(), b"", node.step_id, 1,
                    b"ninelives.await_signal", b"1", SUCCESS, signal.payload, None, 0,
                )  # fmt: skip
                row.signal_id = signal.signal_id.encode()
                return await self._commit(row, self._recall.succeed(row))
        return await self._rest(-1)

    # -- doubts

    async def _reconcile(
        self, node: Step, scope: str, attempt_number: int, voids: int, cause: Exception | None = None
    ) -> Decision:
        """Ask the outside system about an intent without an outcome; never run its effect again blindly.

        A body that raised ``cause`` and whose effect is voided has failed; after a takeover it just runs anew.
        """
        key = (self._claimed.instance_id, self.token, scope, node.step_id, attempt_number)
        if not await self._host.control.doubt(*key):
            return await self._again()
        attempt = self._attempt(RunStep(node, scope, attempt_number, voids, 0))
        answer = await self._probe(node, attempt)
        if isinstance(answer, Done):
            return await self._settled(attempt, answer.result, b"done")
        if isinstance(answer, Voided):
            if not await self._host.control.void(*key):
                return await self._again()
            self._recall.frontier.apply_intent(IntentRow(scope, node.step_id, attempt_number, self.token, "voided"))
            return self._recall.decide() if cause is None else await self._failed(attempt, cause)
        raised = f" (its body raised {cause!r})" if cause is not None else ""
        log.warning("%s: %s is in doubt and waits for an operator%s", self.instance_id, node.name, raised)
        return await self._rest(-1)

    async def _probe(self, node: Step, attempt: Attempt) -> object:
        """Return the answer of the step's own probe; whatever else comes of it leaves the doubt as it is."""
        effect = node.capability.effect
        if not isinstance(effect, AtMostOnce) or effect.reconcile is None:
            return None
        try:
            return await effect.reconcile(attempt.call)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, KeyboardInterrupt) or task is None or task.cancelling():
                raise
            log.warning("%s: the probe of %s was cancelled from within; the doubt stays", self.instance_id, node.name)
        except BaseException as error:
            # sys.exit() too, as in a body.
            log.warning("%s: the probe of %s failed, the doubt stays: %r", self.instance_id, node.name, error)
        return None

    # -- the journal

    async def _commit(self, row: StepCommit, decision: Decision) -> Decision:
        reached(Boundary.JOURNAL_PREPARED, self.instance_id, row.scope.decode(), row.step_id, row.attempt, self.token)
        self._host.submit(row)
        verdict = await row.answered
        if verdict == Verdict.COMMITTED:
            return self._committed(row, decision) or await self._rest(-1)
        if verdict == Verdict.PAUSED:
            return await self._commit_paused(row)
        if verdict == Verdict.ABSORBED:
            return await self._again()
        if verdict == Verdict.REFUSED:
            raise StoreUnavailable(f"the store refused a row of {self.instance_id}: {row.error}")
        return self._refused(verdict)

    def _committed(self, row: StepCommit, decision: Decision) -> Decision | None:
        """Take note of a commit; ``None`` where the instance was paused meanwhile and has to rest."""
        reached(Boundary.JOURNAL_COMMITTED, self.instance_id, row.scope.decode(), row.step_id, row.attempt, self.token)
        self._host.progressed(self)
        if row.finish is not None:
            return self._over(row.finish.decode(), row.finish_result)
        return None if row.observed_pause else decision

    async def _commit_paused(self, row: StepCommit) -> Decision:
        """The instance was paused at its last commit: its result row still counts, its end waits."""
        row.answered = self._loop.create_future()
        row.finish = row.finish_result = None
        row.resent = False
        return await self._commit(row, self._recall.decide())

    def _refused(self, verdict: str) -> Decision:
        log.info("%s: commit refused (%s) under token %d; dropped", self.instance_id, verdict, self.token)
        self._lose()
        return Decision(())

    # -- ends

    async def _complete(self) -> Decision:
        """End with the result of the last node, where its own commit could not: the instance was paused then."""
        while True:
            try:
                return await self._finish("Completed", self._recall.frontier.result("", self._plan.nodes[-1].step_id))
            except Unread as missing:
                await self._recall.read(missing)

    async def _finish(self, state: str, result: Any) -> Decision:
        encoded = codec.encode(result, limit_bytes=1 << 30, what="result of the instance")
        row = Finish(self._claimed.instance_id, self.token, self._loop.create_future(), state.encode(), encoded)
        verdict = await self._write(row)
        if verdict == "finished":
            return self._over(state, encoded)
        if verdict == Verdict.PAUSED:
            return await self._rest(-1)
        return self._refused(verdict)

    def _over(self, state: str, result: bytes | None) -> Decision:
        reached(Boundary.FINISH_COMMITTED, self.instance_id, "", 0, 0, self.token)
        self.holding = False
        self.ended = state
        self.result = result
        return Decision(())

    async def _rest(self, delay_ms: int) -> Decision:
        """Park; where something came in since the claim, read again and go on."""
        row = Park(self._claimed.instance_id, self.token, self._loop.create_future(), self._claimed.seq, delay_ms)
        verdict = await self._write(row)
        if verdict == "parked":
            reached(Boundary.PARK_COMMITTED, self.instance_id, "", 0, 0, self.token)
            self.holding = False
            return Decision(())
        if verdict == "again":
            return await self._again(row.current_seq)
        self._lose()
        return Decision(())

    async def _again(self, seq: int | None = None) -> Decision:
        """Read what the store holds by now and decide anew, under the same lease."""
        claimed = await self._host.control.read(self._claimed)
        if seq is not None:
            claimed = replace(claimed, seq=seq)
        self._claimed = claimed
        if claimed.lost:
            return self._refused(Verdict.FENCED)
        if claimed.paused:
            return await self._rest(-1)
        self._recall.restore(claimed)
        return self._recall.decide()

    async def _release(self) -> None:
        row = Release(self._claimed.instance_id, self.token, self._loop.create_future())
        await self._write(row)
        reached(Boundary.RELEASE_COMMITTED, self.instance_id, "", 0, 0, self.token)
        self.holding = False

    def _lose(self) -> None:
        reached(Boundary.LEASE_LOST, self.instance_id, "", 0, 0, self.token)
        self.holding = False

    async def _write(self, row: Row) -> str:
        self._host.submit(row)
        return await row.answered


def _poison(claims: int) -> dict[str, Any]:
    return {
        "code": "instance.poison",
        "message": f"claimed {claims} times without one commit: it ends the nodes that run it; "
        "look at their logs, fix the step, and start it again under another id",
    }
