"""The operations that come one at a time: signals, pause, resume, doubts, plans, the audit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from psycopg.pq.abc import PGresult

from ninelives.errors import PlanMismatch, StoreUnavailable
from ninelives.packing import int4, int4_array, int8, read_int, text_array, uuid_array
from ninelives.store import claims
from ninelives.store.rows import Claimed
from ninelives.wire import Lost, Refusal, Statement, Wire

log = logging.getLogger("ninelives.control")

TRIES_MAX = 6
RETRY_DELAY_S = 0.05


class Control:
    """A connection for single operations, opened again when it is lost.

    Every operation but ``claim`` is sent again after a lost answer; each is idempotent (PROTOCOL R4).
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Wire]],
        *,
        start_lock: int,
        channel: str,
        on_notify: Callable[[str], None] | None = None,
    ) -> None:
        self._connect = connect
        self._start_lock = start_lock.to_bytes(4, "big", signed=True)
        self._channel = channel.encode()
        self._wire: Wire | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._on_notify = on_notify

    async def open(self) -> Wire:
        """Return the open connection, opening it where needed; raises ``StoreUnavailable``."""
        async with self._opening:
            if self._closed:
                raise StoreUnavailable("this client or node is closed; open a new one")
            if self._wire is None or self._wire.lost:
                self._wire = await self._connect()
                if self._closed:
                    self._wire.close()
                    raise StoreUnavailable("this client or node was closed; open a new one")
                self._wire.on_notify = self._on_notify
                if self._on_notify is not None:
                    self._on_notify(self._channel.decode())
            return self._wire

    def renew_connection(self) -> None:
        """Leave the present connection for a new one, under the present session's name."""
        if self._wire is not None:
            self._wire.close()

    def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        self.renew_connection()

    async def claim(
        self, session_id: int, plan_ids: Sequence[int], limits: claims.Limits
    ) -> list[Claimed] | None:
        """Claim and read in one flush; ``None`` when the answer was lost or refused (the audit repairs that)."""
        try:
            wire = await self.open()
        except StoreUnavailable as error:
            log.info("no claim: %s", error)
            return None
        answer = await wire.ask(claims.claim(session_id, plan_ids, limits))
        if isinstance(answer, list):
            return claims.claimed(answer)
        log.info("claim not answered: %s", answer.message)
        return None

    async def read(self, before: Claimed) -> Claimed:
        """Read again what this node holds."""
        return claims.read_again(before, await self._ask(claims.read([before.instance_id])))

    async def results(
        self, instance_id: bytes, keys: Sequence[tuple[str, int]]
    ) -> list[tuple[str, int, bytes | None]]:
        """Scope, step and encoded result of those of the steps that have succeeded."""
        scopes, step_ids = text_array([scope.encode() for scope, _ in keys]), int4_array([step for _, step in keys])
        (answer,) = await self._ask([(b"read_results", (instance_id, scopes, step_ids))])
        return [
            (_text(answer, line, 0), read_int(answer.get_value(line, 1) or b"\0"), answer.get_value(line, 2))
            for line in range(answer.ntuples)
        ]

    async def doubt(self, instance_id: bytes, token: int, scope: str, step_id: int, attempt: int) -> bool:
        """Note that an intent was met without an outcome; false when it has one or the token is stale."""
        return await self._intent(b"doubt", instance_id, token, scope, step_id, attempt)

    async def void(self, instance_id: bytes, token: int, scope: str, step_id: int, attempt: int) -> bool:
        """Close an intent as voided; false when it has another outcome or the token is stale."""
        return await self._intent(b"void", instance_id, token, scope, step_id, attempt)

    async def _intent(
        self, block: bytes, instance_id: bytes, token: int, scope: str, step_id: int, attempt: int
    ) -> bool:
        key = (instance_id, int8(token), scope.encode(), int4(step_id), int4(attempt))
        results = await self._ask([(b"commit_lock", (uuid_array([instance_id]),)), (block, key)])
        return results[-1].ntuples > 0

    async def signal(self, instance_id: bytes, signal_id: str, name: str, payload: bytes) -> str:
        """PROTOCOL operation signal: accepted, duplicate, finished or, before the start, buffered."""
        values = (instance_id, signal_id.encode(), name.encode(), payload)
        notify: Statement = (b"start_notify", (self._channel,))
        results = await self._ask([(b"signal", values), notify])
        outcome = _text(results[0], 0, 0)
        if outcome != "unknown":
            return outcome
        guard: Statement = (b"signal_guard", (self._start_lock,))
        results = await self._ask([guard, (b"wake", (instance_id,)), (b"signal_early", values), notify])
        return _text(results[2], 0, 0)

    async def pause(self, instance_id: bytes) -> str | None:
        """Pause; the state it was in, or ``None`` when there is nothing to pause."""
        results = await self._ask([(b"pause_lock", (instance_id,)), (b"pause", (instance_id,))])
        return _text(results[1], 0, 0) if results[1].ntuples else None

    async def resume(self, instance_id: bytes) -> str | None:
        """Resume; the state it is in, or ``None`` when there is nothing to resume."""
        results = await self._ask(
            [(b"wake", (instance_id,)), (b"resume", (instance_id,)), (b"start_notify", (self._channel,))]
        )
        return _text(results[1], 0, 0) if results[1].ntuples else None

    async def settle(self, instance_id: bytes, scope: str, step_id: int) -> bool:
        """An operator's word that an effect in doubt may run again under a new key."""
        results = await self._ask(
            [
                (b"wake", (instance_id,)),
                (b"commit_lock", (uuid_array([instance_id]),)),
                (b"settle", (instance_id, scope.encode(), int4(step_id))),
                (b"start_notify", (self._channel,)),
            ]
        )
        return results[2].ntuples > 0

    async def known(self, instance_id: bytes) -> tuple[str, bytes | None] | None:
        """State and result of an instance, or ``None``."""
        (answer,) = await self._ask([(b"known", (instance_id,))])
        return (_text(answer, 0, 0), answer.get_value(0, 1)) if answer.ntuples else None

    async def register(self, flow_id: str, version: str, fingerprint: str, plan: bytes) -> int:
        """Make a plan known and return its number; raises ``PlanMismatch`` for another plan of that version."""
        values = (flow_id.encode(), version.encode(), fingerprint.encode(), plan)
        (answer,) = await self._ask([(b"plan_register", values)])
        found = _text(answer, 0, 1)
        if found != fingerprint:
            raise PlanMismatch(flow_id, version, found, fingerprint)
        return read_int(answer.get_value(0, 0) or b"\0")

    async def find_plan(self, flow_id: str, version: str | None) -> tuple[int, str, bytes] | None:
        """Number, version and text of a plan; the newest where no version is given."""
        wanted = None if version is None else version.encode()
        (answer,) = await self._ask([(b"plan_find", (flow_id.encode(), wanted))])
        if not answer.ntuples:
            return None
        return read_int(answer.get_value(0, 0) or b"\0"), _text(answer, 0, 1), answer.get_value(0, 2) or b"null"

    async def held(self, session_id: int) -> list[tuple[bytes, int]]:
        """Instances and tokens that this session holds according to the store."""
        (answer,) = await self._ask([(b"audit", (int8(session_id),))])
        return [
            (answer.get_value(line, 0) or b"", read_int(answer.get_value(line, 1) or b"\0"))
            for line in range(answer.ntuples)
        ]

    async def _ask(self, statements: Sequence[Statement]) -> list[PGresult]:
        delay_s = RETRY_DELAY_S
        answer: Refusal | Lost = Lost("never sent")
        for _ in range(TRIES_MAX):
            try:
                got = await (await self.open()).ask(statements)
            except StoreUnavailable as error:
                if self._closed:
                    raise
                got = Lost(str(error))
            if isinstance(got, list):
                return got
            answer = got
            if isinstance(answer, Refusal) and answer.sqlstate[:2] not in ("40", "53", "55", "57", "25", "08"):
                break
            await asyncio.sleep(delay_s)
            delay_s *= 2
        code = f" ({answer.sqlstate})" if isinstance(answer, Refusal) else ""
        raise StoreUnavailable(answer.message + code)


def _text(answer: PGresult, line: int, column: int) -> str:
    return (answer.get_value(line, column) or b"").decode()
