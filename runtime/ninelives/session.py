"""A node's session: one row, one heartbeat for all its leases, and an advisory lock that dies with the process.

It lives in a thread of its own with a connection of its own, so that neither a blocked event loop nor an exhausted
pool can cost a lease. Losing the session is a fact about latency; what is safe is decided by the fencing tokens.
"""

from __future__ import annotations

import logging
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psycopg

from ninelives.errors import StoreUnavailable
from ninelives.settings import Settings

log = logging.getLogger("ninelives.session")

RETRY_S = 0.2
REPEAT_S = 60.0
# A descriptor that is closed between its reading and its cutting could be somebody else's by then.
_ending = threading.Lock()


def application_name(session_id: int) -> str:
    """Name the connections of a session, so that declaring it dead can end them (PROTOCOL R5)."""
    return f"ninelives {session_id}"


class Outage:
    """What is said again and again while something is away: at first, once a minute, and when it is back."""

    def __init__(self, logger: logging.Logger, level: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = logger
        self._level = level
        self._clock = clock
        self._since: float | None = None
        self._say_at = 0.0
        self._times = 0

    def goes_on(self, message: str, *arguments: object) -> None:
        """Tell a failure, in one line, unless one was told within the last minute."""
        now = self._clock()
        self._times += 1
        if self._since is None:
            self._since = now
        elif now < self._say_at:
            return
        self._say_at = now + REPEAT_S
        told = (" ".join(str(part).split()) if isinstance(part, Exception) else part for part in arguments)
        self._log.log(self._level, message, *told)

    def is_over(self, message: str, *arguments: object) -> None:
        """Tell the end, if there was a beginning."""
        if self._since is not None:
            lasted_s = self._clock() - self._since
            self._log.log(self._level, f"{message} (after %d failures in %.1f s)", *arguments, self._times, lasted_s)
            self._since = None
            self._times = 0


def cut(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """End whatever a thread waits for on its connection: a server that is frozen or cut off may never answer.

    Only the socket, and a duplicate of it: the connection itself belongs to that thread, which ends it with ``end``.
    """
    with _ending, suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def end(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Close a connection that another thread may want to ``cut``."""
    with _ending:
        connection.close()


class Session:
    """One incarnation of a node, from opening to loss or close; never revived, never reused.

    ``on_lost`` is called in the session's thread when the session is dead, expired or cut off. The server's clock is
    known through ``clock_us``: the last heartbeat's answer plus what the monotonic clock counted since. ``check`` is
    called with the connection before the session is opened on it, and may refuse; ``channel`` is notified behind.
    """

    def __init__(
        self,
        dsn: str,
        queries: Mapping[str, str],
        name: str,
        settings: Settings,
        on_lost: Callable[[Session], None],
        check: Callable[[psycopg.Connection[tuple[object, ...]]], object] | None = None,
        channel: str | None = None,
    ) -> None:
        self.session_id = secrets.randbits(63) or 1
        self._dsn = dsn
        self._queries = queries
        self._name = name
        self._settings = settings
        self._on_lost = on_lost
        self._check = check
        self._channel = channel
        self._stop = threading.Event()
        self._stopper: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._clock = (0, 0)
        self.lost = False

    @property
    def application_name(self) -> str:
        """The name of every connection of this session."""
        return application_name(self.session_id)

    def clock_us(self) -> int:
        """Return the database's clock in microseconds since 1970, by its last answer."""
        server_us, at_ns = self._clock
        return server_us + (time.monotonic_ns() - at_ns) // 1000

    def open(self) -> None:
        """Take the lock, then insert the row, then keep it alive; raises ``StoreUnavailable``."""
        try:
            connection = psycopg.connect(
                self._dsn,
                autocommit=True,
                application_name=self.application_name,
                connect_timeout=self._settings.connect_timeout_s,
                cursor_factory=psycopg.RawCursor,
            )
        except psycopg.Error as error:
            raise StoreUnavailable(str(error).strip()) from error
        self._connection = connection
        try:
            if self._stop.is_set():
                raise StoreUnavailable(f"session {self.session_id} was given up while it was opened")
            connection.execute("set statement_timeout = '10s'")
            if self._check is not None:
                self._check(connection)
            taken = connection.execute(self._queries["session_lock"].encode(), [self.session_id]).fetchone()
            if taken is None or taken[0] is not True:
                raise StoreUnavailable(f"the lock of session {self.session_id} is taken; start the node again")
            asked_ns = time.monotonic_ns()
            opened = connection.execute(
                self._queries["session_open"].encode(), [self.session_id, self._name, self._settings.ttl_ms]
            ).fetchone()
            if self._channel is not None:
                connection.execute(self._queries["start_notify"].encode(), [self._channel])
        except psycopg.Error as error:
            end(connection)
            raise StoreUnavailable(str(error).strip()) from error
        except BaseException:
            end(connection)
            raise
        self._set_clock(opened, asked_ns)
        self._stopper, stopped = socket.socketpair()
        self._thread = threading.Thread(
            target=self._keep, args=(connection, stopped), name="ninelives-session", daemon=True
        )
        self._thread.start()

    def abandon(self) -> None:
        """End an opening in another thread, as soon as it has a connection to end; then ``close``."""
        self._stop.set()
        if self._connection is not None:
            cut(self._connection)

    def close(self) -> None:
        """Say goodbye: the row is marked dead and the lock given back. What is still held becomes due at once.

        A server that does not answer within ``connect_timeout_s`` is left without a goodbye; its nodes see the lock go.
        """
        self._stop.set()
        connection = self._connection
        if connection is None:
            return
        if self._stopper is not None:
            with suppress(OSError):
                self._stopper.send(b"x")
        guard = threading.Timer(self._settings.connect_timeout_s, cut, [connection])
        guard.start()
        try:
            if self._thread is not None:
                self._thread.join()
            if not connection.closed:
                connection.execute(self._queries["session_close"].encode(), [self.session_id])
        except psycopg.Error as error:
            log.info("session %d could not say goodbye: %s", self.session_id, error)
        finally:
            guard.cancel()
            guard.join()
            end(connection)

    def _keep(self, connection: psycopg.Connection[tuple[object, ...]], stopped: socket.socket) -> None:
        try:
            self._beat(connection, stopped)
        finally:
            stopped.close()
            if self._stopper is not None:
                self._stopper.close()

    def _beat(self, connection: psycopg.Connection[tuple[object, ...]], stopped: socket.socket) -> None:
        renew_at = time.monotonic() + self._settings.renew_s
        # Not select(): it refuses every descriptor from 1024 on, which a busy process has.
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(stopped, select.POLLIN)
        outage = Outage(log, logging.WARNING)
        while not self._stop.is_set():
            readable = poll.poll(max(0.0, renew_at - time.monotonic()) * 1000)
            if self._stop.is_set():
                return
            try:
                asked_ns = time.monotonic_ns()
                alive = self._renew(connection)
            except psycopg.Error as error:
                if self._stop.is_set():
                    return
                if not connection.closed and not readable:
                    outage.goes_on("session %d: heartbeat failed, tried again: %s", self.session_id, error)
                    renew_at = time.monotonic() + RETRY_S
                    continue
                log.warning("session %d lost its connection: %s", self.session_id, error)
                alive = None
            if alive is None:
                self._lose()
                return
            outage.is_over("session %d: heartbeat answered again", self.session_id)
            self._set_clock(alive, asked_ns)
            renew_at = time.monotonic() + self._settings.renew_s

    def _renew(self, connection: psycopg.Connection[tuple[object, ...]]) -> tuple[object, ...] | None:
        """Send one heartbeat; one that a TTL leaves unanswered ends the connection: a dead line says nothing."""
        guard = threading.Timer(self._settings.ttl_s, cut, [connection])
        guard.daemon = True
        guard.start()
        try:
            values = [self.session_id, self._settings.ttl_ms]
            return connection.execute(self._queries["session_renew"].encode(), values).fetchone()
        finally:
            guard.cancel()

    def _set_clock(self, row: tuple[object, ...] | None, asked_ns: int) -> None:
        if row is not None:
            self._clock = int(str(row[0]).partition(".")[0]), (asked_ns + time.monotonic_ns()) // 2

    def _lose(self) -> None:
        self.lost = True
        if self._connection is not None:
            end(self._connection)
        self._on_lost(self)
