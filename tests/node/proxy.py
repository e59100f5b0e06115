"""A proxy on loopback that understands enough of PostgreSQL's protocol to cut a connection at the worst moment.

Armed for a statement, it cuts the connection that sends it: `after` the server has executed the exchange and before
any of its answer has gone back, or `before` the exchange has gone out. It runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Matches = Callable[[bytes, bytes], bool]


def bind_of(name: str) -> Matches:
    """Match the execution of a prepared statement."""
    mark = b"\0" + name.encode() + b"\0"
    return lambda kind, body: kind == b"B" and mark in body[: len(mark) + 1]


def parse_of(text: str) -> Matches:
    """Match the sending of a statement's text."""
    mark = b"\0" + text.encode() + b"\0"
    return lambda kind, body: kind == b"P" and mark in body


def query_of(text: str) -> Matches:
    """Match a simple query."""
    return lambda kind, body: kind == b"Q" and body == text.encode() + b"\0"


class Proxy:
    """Forward connections to `dsn`; `dsn` of this object is the way through it."""

    def __init__(self, dsn: str) -> None:
        known = conninfo_to_dict(dsn)
        self._target = f"{known['host']}/.s.PGSQL.{known['port']}"
        self._known = known
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._open: set[_Pair] = set()
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._ready = threading.Event()
        self.dsn = ""
        self.matches: Matches | None = None
        self.before = False
        self.cuts_left = 0
        self.cuts = 0

    def cut(self, matches: Matches, *, count: int = 1, before: bool = False) -> None:
        """Arm: the next `count` exchanges that match are cut."""
        self.before = before
        self.cuts_left = count
        self.matches = matches

    def wants(self, kind: bytes, body: bytes) -> bool:
        """Tell whether this message is to be cut, and count it."""
        if self.cuts_left <= 0 or self.matches is None or not self.matches(kind, body):
            return False
        self.cuts_left -= 1
        return True

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        """Serve while the block runs."""
        self._thread.start()
        self._ready.wait(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        assert self._server is not None
        self._server.close()
        # Closed and not cancelled: a cancelled acceptor makes asyncio's streams complain.
        while tasks := asyncio.all_tasks(self._loop):
            for pair in list(self._open):
                pair.close()
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=0.1))
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        where = {"host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
        self.dsn = make_conninfo("", **{**self._known, **where})

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.close()
            return
        pair = _Pair(self, reader, writer, server_reader, server_writer)
        self._open.add(pair)
        try:
            await pair.run()
        finally:
            self._open.discard(pair)


class _Pair:
    """One connection through the proxy."""

    def __init__(
        self,
        proxy: Proxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._server_reader, self._server_writer = server_reader, server_writer
        self._syncs = 0
        self._readies = -1  # the first one ends the start-up
        self._cut_at: int | None = None

    def close(self) -> None:
        self._writer.close()
        self._server_writer.close()

    async def run(self) -> None:
        ways = [asyncio.ensure_future(self._to_server()), asyncio.ensure_future(self._to_client())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self.close()

    async def _to_server(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            size = await self._reader.readexactly(4)
            self._server_writer.write(size + await self._reader.readexactly(int.from_bytes(size, "big") - 4))
            while True:
                kind, size, body = await _message(self._reader)
                if self._cut_at is None and self._proxy.wants(kind, body):
                    if self._proxy.before:
                        self._proxy.cuts += 1
                        return
                    self._cut_at = self._syncs
                # A simple query is answered with a ReadyForQuery too.
                self._syncs += kind in (b"S", b"Q")
                self._server_writer.write(kind + size + body)
                await self._server_writer.drain()

    async def _to_client(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, size, body = await _message(self._server_reader)
                self._readies += kind == b"Z"
                if self._cut_at is not None and self._readies >= self._cut_at:
                    if self._readies > self._cut_at:
                        self._proxy.cuts += 1
                        return
                    if kind != b"Z":
                        continue
                self._writer.write(kind + size + body)
                await self._writer.drain()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head[1:], await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
