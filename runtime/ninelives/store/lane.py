"""Group commit: what concurrent activations have ready goes out together, and each row gets its own answer.

One batch of each kind is in flight on a lane; the next goes out as soon as the lane is idle, without lingering (a
1 ms linger made latency worse). An instance belongs to one lane, so its writes keep their order. A batch whose
answer was lost is sent again unchanged (PROTOCOL R4): a row that exists under its own token is a success.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from psycopg.pq.abc import PGresult

from ninelives.store import batches
from ninelives.store.rows import Finish, Intend, Park, Release, Row, Start, StepCommit, Verdict
from ninelives.wire import Answer, Lost, Refusal, Statement, Wire

log = logging.getLogger("ninelives.lane")

BATCH_ROWS_MAX: Final = 500
RETRY_DELAY_S: Final = 0.05
_CONFLICT: Final = "NL001"
_TRY_AGAIN: Final = ("40", "53", "55", "57", "58", "25", "08", "XX")
"""SQLSTATE classes that say nothing about the rows: serialisation, resources, locks, shutdown, read-only."""

WireFactory = Callable[[], Awaitable[Wire]]
R = TypeVar("R", bound=Row)


class Lane:
    """One pipelined connection and the rows that wait for it."""

    def __init__(self, connect: WireFactory, *, session_id: Callable[[], int], start_lock: int, channel: str) -> None:
        self._connect = connect
        self._session_id = session_id
        self._start_lock = start_lock
        self._channel = channel.encode()
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._waiting: dict[type[Row], list[Row]] = {}
        self._unanswered = 0
        self._scheduled = False
        self._closed = False
        self._reconnecting: asyncio.Task[None] | None = None
        self.batches = 0
        self.rows = 0

    async def open(self) -> None:
        """Connect; raises ``StoreUnavailable``."""
        self._wire = await self._connect()
        self._wire.on_lost = self._on_lost
        if self._wire.lost:
            self._on_lost()

    def submit(self, row: Row) -> None:
        """Queue a row; its future gets the verdict."""
        if self._closed:
            row.settle(Verdict.UNKNOWN)
            return
        waiting = self._waiting.get(type(row))
        if waiting is None:
            self._waiting[type(row)] = [row]
        else:
            waiting.append(row)
        if not self._scheduled and self._unanswered == 0:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    async def close(self) -> None:
        """Close the connection; what was not answered never will be, and is told so (``Verdict.UNKNOWN``)."""
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        if self._wire is not None:
            self._wire.close()
        self._again([row for rows in self._waiting.values() for row in rows])

    # -- sending

    def _flush(self) -> None:
        self._scheduled = False
        wire = self._wire
        if wire is None or wire.lost or self._unanswered or self._closed:
            return
        for kind in _ORDER:
            rows = self._waiting.get(kind)
            if not rows:
                continue
            if len(rows) > BATCH_ROWS_MAX:
                self._waiting[kind] = rows[BATCH_ROWS_MAX:]
                rows = rows[:BATCH_ROWS_MAX]
            else:
                self._waiting[kind] = []
            self.batches += 1
            self.rows += len(rows)
            self._send_kind(kind, rows)

    def _send_kind(self, kind: type[Row], rows: list[Row]) -> None:
        if kind is StepCommit:
            self._send_commits([row for row in rows if isinstance(row, StepCommit)])
        elif kind is Start:
            starts = [row for row in rows if isinstance(row, Start)]
            held, plain = [r for r in starts if r.hold], [r for r in starts if not r.hold]
            for part, session_id in ((held, self._session_id()), (plain, None)):
                if part:
                    statements = batches.start(part, self._start_lock, session_id, self._channel)
                    self._send(statements, part, self._on_start)
        elif kind is Intend:
            intents = [row for row in rows if isinstance(row, Intend)]
            self._send(batches.intend(intents), intents, self._on_verdicts)
        elif kind is Finish:
            ends = [row for row in rows if isinstance(row, Finish)]
            self._send(batches.finish(ends), ends, self._on_verdicts)
        elif kind is Park:
            parks = [row for row in rows if isinstance(row, Park)]
            self._send(batches.park(parks, self._session_id()), parks, self._on_park)
        elif kind is Release:
            releases = [row for row in rows if isinstance(row, Release)]
            self._send(batches.release(releases, self._session_id()), releases, self._on_verdicts)

    def _send_commits(self, rows: list[StepCommit]) -> None:
        special = {row.instance_id for row in rows if row.careful or row.signal_id or row.settles}
        seen: set[bytes] = set()
        for row in rows:
            if row.instance_id in seen:
                special.add(row.instance_id)
            seen.add(row.instance_id)
        rows.sort(key=_by_instance)
        plain = [row for row in rows if row.instance_id not in special] if special else rows
        if plain:
            self._send(batches.commit(plain, careful=False), plain, self._on_commit)
        if special:
            careful = [row for row in rows if row.instance_id in special]
            self._send(batches.commit(careful, careful=True), careful, self._on_commit)

    def _send(
        self,
        statements: Sequence[Statement],
        rows: Sequence[R],
        on_results: Callable[[Sequence[R], list[PGresult]], None],
    ) -> None:
        wire = self._wire
        assert wire is not None

        def on_answer(answer: Answer) -> None:
            self._unanswered -= 1
            if isinstance(answer, list):
                on_results(rows, answer)
            elif isinstance(answer, Lost):
                self._again(rows)
            else:
                self._on_refusal(rows, answer)
            if self._unanswered == 0 and not self._scheduled:
                self._scheduled = True
                self._loop.call_soon(self._flush)

        self._unanswered += 1
        wire.send(statements, on_answer)

    # -- answers

    def _on_commit(self, rows: Sequence[StepCommit], results: list[PGresult]) -> None:
        refused = batches.settle_commit(rows, results)
        if refused:
            self._send(batches.classify(refused), refused, self._on_classified)

    def _on_classified(self, rows: Sequence[StepCommit], results: list[PGresult]) -> None:
        answer = results[-1]
        for line in range(answer.ntuples):
            row = rows[int.from_bytes(answer.get_value(line, 0) or b"\0", "big") - 1]
            verdict = (answer.get_value(line, 1) or b"").decode()
            row.observed_pause = answer.get_value(line, 2) == b"\x01"
            if verdict == Verdict.ABSORBED and row.signal_id is None:
                row.careful = True
                self._again([row])
            else:
                row.settle(verdict)

    def _on_verdicts(self, rows: Sequence[Row], results: list[PGresult]) -> None:
        batches.settle_verdicts(rows, results)

    def _on_park(self, rows: Sequence[Park], results: list[PGresult]) -> None:
        batches.settle_park(rows, results)

    def _on_start(self, rows: Sequence[Start], results: list[PGresult]) -> None:
        existing = batches.settle_start(rows, results)
        if existing:
            self._send(batches.start_existing(existing), existing, self._on_start_existing)

    def _on_start_existing(self, rows: Sequence[Start], results: list[PGresult]) -> None:
        for row in batches.settle_start_existing(rows, results):
            row.hold = False
            self._again([row])

    def _on_refusal(self, rows: Sequence[Row], refusal: Refusal) -> None:
        if refusal.sqlstate == _CONFLICT:
            for row in rows:
                if isinstance(row, StepCommit):
                    row.careful = True
            self._again(rows)
        elif refusal.sqlstate[:2] in _TRY_AGAIN:
            log.warning("batch of %d rows refused (%s), sent again: %s", len(rows), refusal.sqlstate, refusal.message)
            self._loop.call_later(RETRY_DELAY_S, self._again_soon, rows)
        elif len(rows) == 1:
            rows[0].error = f"{refusal.sqlstate}: {refusal.message}"
            rows[0].settle(Verdict.REFUSED)
        else:
            for row in rows:
                self._send_kind(type(row), [row])

    def _again(self, rows: Sequence[Row]) -> None:
        if self._closed:
            for row in rows:
                row.settle(Verdict.UNKNOWN)
            return
        for row in rows:
            row.resent = True
        for kind in {type(row) for row in rows}:
            same = [row for row in rows if type(row) is kind]
            self._waiting[kind] = same + self._waiting.get(kind, [])

    def _again_soon(self, rows: Sequence[Row]) -> None:
        self._again(rows)
        if self._unanswered == 0:
            self._flush()

    # -- the connection

    def _on_lost(self) -> None:
        if not self._closed and self._reconnecting is None:
            self._reconnecting = self._loop.create_task(self._reconnect())

    def renew_connection(self) -> None:
        """Leave the present connection for a new one, under the present session's name."""
        if self._wire is not None and not self._wire.lost:
            self._wire.close()

    async def _reconnect(self) -> None:
        delay_s = RETRY_DELAY_S
        while not self._closed:
            try:
                wire = await self._connect()
            except Exception as error:
                log.warning("no connection to the store, next try in %.2f s: %s", delay_s, error)
                await asyncio.sleep(delay_s)
                delay_s = min(1.0, delay_s * 2)
                continue
            wire.on_lost = self._on_lost
            self._wire = wire
            break
        self._reconnecting = None
        if self._wire is not None and self._wire.lost:
            self._on_lost()
        else:
            self._flush()


def _by_instance(row: Row) -> bytes:
    return row.instance_id


_ORDER: Final[tuple[type[Row], ...]] = (StepCommit, Finish, Intend, Park, Release, Start)
