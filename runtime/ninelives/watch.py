"""How a node sees another one die: by waiting for its neighbour's lock, and by a periodic look over all sessions.

The server gives a killed process's advisory lock to the next in line within milliseconds. A frozen process keeps
its lock until its TTL runs out, which the look finds. Either way one row is written; the wakes that the dead session
held are due from then on, and a false alarm is safe because every takeover raises the fence.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping

import psycopg

from ninelives.boundaries import Boundary, reached
from ninelives.session import Outage, application_name, cut, end
from ninelives.settings import Settings

log = logging.getLogger("ninelives.watch")

BACKENDS_ROUNDS_MAX = 200
PRUNE_AFTER_MS = 3_600_000
QUIET_END_S = 2.0


class Watch:
    """A thread that declares sessions dead; ``on_death`` is called in it with the session's id."""

    def __init__(
        self,
        dsn: str,
        queries: Mapping[str, str],
        settings: Settings,
        session_id: Callable[[], int],
        channel: str,
        on_death: Callable[[int], None],
    ) -> None:
        self._dsn = dsn
        self._queries = {name: text.encode() for name, text in queries.items()}
        self._settings = settings
        self._session_id = session_id
        self._channel = channel
        self._on_death = on_death
        self._stop = threading.Event()
        self._jitter = random.Random(session_id())
        self._threads = [
            threading.Thread(target=self._guarded, args=(self._wait_round,), name="ninelives-watch", daemon=True),
            threading.Thread(target=self._guarded, args=(self._look_round,), name="ninelives-look", daemon=True),
            threading.Thread(target=self._bury_loop, name="ninelives-bury", daemon=True),
        ]
        self._unburied: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._ring = threading.Event()
        self._neighbour_known = threading.Event()
        self._awaited: tuple[int, psycopg.Connection[tuple[object, ...]]] | None = None
        self._adopt_at = 0.0
        self._connections: set[psycopg.Connection[tuple[object, ...]]] = set()

    def open(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop watching; returns when the threads have ended, which a server that is away delays by one time-out."""
        self._stop.set()
        self._ring.set()
        self._neighbour_known.set()
        self._unburied.put(None)
        self._join(QUIET_END_S)
        # Behind a quiet end, which leaves nothing in the server's log: a frozen server never answers.
        for connection in list(self._connections):
            cut(connection)
        self._join(self._settings.connect_timeout_s)

    def _join(self, budget_s: float) -> None:
        give_up_at = time.monotonic() + budget_s
        for thread in self._threads:
            thread.join(max(0.0, give_up_at - time.monotonic()))

    def ring_changed(self) -> None:
        """A session was opened: look at once whether it is the neighbour now. From any thread."""
        self._ring.set()

    def _guarded(self, one_round: Callable[[psycopg.Connection[tuple[object, ...]]], None]) -> None:
        """Run rounds for ever: a failure costs the connection, never the loop."""
        connection: psycopg.Connection[tuple[object, ...]] | None = None
        outage = Outage(log, logging.INFO)
        while not self._stop.is_set():
            try:
                if connection is None or connection.closed:
                    connection = self._connect()
                one_round(connection)
                outage.is_over("watch goes on")
            except psycopg.Error as error:
                if not self._stop.is_set():
                    outage.goes_on("watch interrupted, tried again: %s", error)
                self._disconnect(connection)
                self._stop.wait(self._settings.look_s)
        self._disconnect(connection)

    def _disconnect(self, connection: psycopg.Connection[tuple[object, ...]] | None) -> None:
        if connection is not None:
            self._connections.discard(connection)
            end(connection)

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect(
            self._dsn,
            autocommit=True,
            application_name=application_name(self._session_id()),
            connect_timeout=self._settings.connect_timeout_s,
            cursor_factory=psycopg.RawCursor,
        )
        self._connections.add(connection)
        try:
            if self._stop.is_set():
                raise psycopg.OperationalError("the watch was closed while it connected")
            # Below the default deadlock_timeout, at which log_lock_waits would write a line for every wait.
            connection.execute("set lock_timeout = '900ms'")
            connection.execute("set statement_timeout = 0")
        except BaseException:
            self._disconnect(connection)
            raise
        return connection

    def _wait_round(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Wait for the neighbour's lock, bounded so that the wait never pins the vacuum horizon for long."""
        neighbour = self._find_neighbour(connection)
        if neighbour is None:
            self._neighbour_known.wait(self._settings.look_s)
            self._neighbour_known.clear()
            return
        self._awaited = neighbour, connection
        try:
            with connection.transaction():
                granted = connection.execute(self._queries["session_await_death"], [neighbour]).fetchone()
                if granted != (True,):
                    return
                dead = connection.execute(self._queries["session_declare_dead"], [neighbour]).fetchall()
                if dead:
                    connection.execute(self._queries["start_notify"], [self._channel])
        except psycopg.errors.QueryCanceled:
            return
        finally:
            self._awaited = None
        self._declare(dead)

    def _find_neighbour(self, connection: psycopg.Connection[tuple[object, ...]]) -> int | None:
        found = connection.execute(self._queries["session_neighbour"], [self._session_id()]).fetchone()
        if found is None:
            return None
        assert isinstance(found[0], int)
        return found[0]

    def _turn_to(self, neighbour: int | None) -> None:
        """End a wait for a session that is no longer the neighbour: a new one has come between."""
        awaited = self._awaited
        if awaited is not None and neighbour not in (None, awaited[0]):
            awaited[1].cancel_safe(timeout=self._settings.connect_timeout_s)
        elif awaited is None and neighbour is not None:
            self._neighbour_known.set()

    def _look_round(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Look over all sessions: locks that are gone, and time that ran out."""
        self._ring.wait(self._settings.look_s * self._jitter.uniform(0.75, 1.25))
        self._ring.clear()
        if self._stop.is_set():
            return
        with connection.transaction():
            dead = connection.execute(self._queries["session_look"], [self._session_id()]).fetchall()
            if dead:
                connection.execute(self._queries["start_notify"], [self._channel])
        self._declare(dead)
        self._turn_to(self._find_neighbour(connection))
        if time.monotonic() >= self._adopt_at:
            self._adopt_at = time.monotonic() + self._settings.renew_s
            adopted = connection.execute(self._queries["session_adopt_missing"]).fetchall()
            connection.execute(self._queries["session_prune"], [PRUNE_AFTER_MS])
            self._declare(adopted)

    def _declare(self, dead: list[tuple[object, ...]]) -> None:
        for (session_id,) in dead:
            assert isinstance(session_id, int)
            log.info("session %d is dead", session_id)
            reached(Boundary.SESSION_DECLARED_DEAD, None, "", 0, 0, 0)
            self._on_death(session_id)
            self._unburied.put(session_id)

    def _bury_loop(self) -> None:
        """End what dead sessions left open; apart from the watch, so that it never delays the next death."""
        outage = Outage(log, logging.INFO)
        while (session_id := self._unburied.get()) is not None and not self._stop.is_set():
            connection = None
            try:
                connection = self._connect()
                self._end_backends(connection, session_id)
                outage.is_over("backends of session %d ended", session_id)
            except psycopg.Error as error:
                if not self._stop.is_set():
                    outage.goes_on("backends of session %d not ended, tried again: %s", session_id, error)
                self._stop.wait(self._settings.look_s)
                self._unburied.put(session_id)
            finally:
                self._disconnect(connection)

    def _end_backends(self, connection: psycopg.Connection[tuple[object, ...]], session_id: int) -> None:
        """End what the dead session left open, again until nothing is: an open transaction may hide its rows."""
        for _ in range(BACKENDS_ROUNDS_MAX):
            ended = connection.execute(
                self._queries["session_backends"], [application_name(session_id)]
            ).fetchone()
            if ended is None or ended[0] == 0 or self._stop.wait(0.01):
                return
        log.warning("backends of dead session %d are still there; a superuser may have to end them", session_id)
