"""The nodes' lines to the server: a proxy for each, which can cut, delay or drop what passes.

A line is a unix socket of the run directory that leads to the server's own address. One thread serves all of them.
While nothing is wrong with a line it only passes bytes on; a node notices nothing of it but a few microseconds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ninelives_rig.nemesis.base import NodeNemesis
from ninelives_rig.refusal import Refused

if TYPE_CHECKING:
    from ninelives_rig.nodes import Node

T = TypeVar("T")
_CHUNK = 1 << 16
_ANSWER_S = 10.0
TO_SERVER, TO_NODE = "to_server", "to_node"
_OPEN, _HELD, _DROPPED = "open", "held", "dropped"


class Line:
    """The proxy of one slot. Everything here runs in the thread of its ``Lines``."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._state = {TO_SERVER: _OPEN, TO_NODE: _OPEN}
        self._changed = asyncio.Condition()
        self._pairs: set[_Pair] = set()
        self._server: asyncio.Server | None = None
        self.passed = {_HELD: 0, _DROPPED: 0}

    async def serve(self, path: Path) -> None:
        """Accept nodes at this socket."""
        self._server = await asyncio.start_unix_server(self._accept, path)

    async def set(self, state: str, *directions: str) -> dict[str, int]:
        """Hold, drop or pass what goes in these directions; return what was held and dropped since the last change.

        A stream that lost bytes can never be whole again, so when a line passes again such connections are ended.
        """
        async with self._changed:
            for direction in directions:
                self._state[direction] = state
            self._changed.notify_all()
        if state == _OPEN:
            for pair in list(self._pairs):
                if pair.broken:
                    pair.abort()
        told, self.passed = self.passed, {_HELD: 0, _DROPPED: 0}
        return told

    async def close(self) -> None:
        """End every connection and accept no more."""
        if self._server is not None:
            self._server.close()
        for pair in list(self._pairs):
            pair.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._address.startswith("/"):
                path = f"{self._address}/.s.PGSQL.{self._port}"
                server = await asyncio.open_unix_connection(path)
            else:
                server = await asyncio.open_connection(self._address, self._port)
        except OSError:  # The server is down: the node is told so in the same way.
            writer.transport.abort()
            return
        pair = _Pair(writer, server[1])
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pump(reader, server[1], TO_SERVER, pair), self._pump(server[0], writer, TO_NODE, pair)
            )
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            pair.abort()
            self._pairs.discard(pair)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str, pair: _Pair
    ) -> None:
        """Pass on what one side says, and at last that it says no more: neither comes through a line that is cut."""
        while True:
            chunk = await reader.read(_CHUNK)
            if self._state[direction] == _HELD:
                self.passed[_HELD] += len(chunk)
                await self._while(direction, _HELD)
            if self._state[direction] == _DROPPED:
                self.passed[_DROPPED] += len(chunk)
                pair.broken = True
                if chunk:
                    continue
                await self._while(direction, _DROPPED)
            if not chunk:
                # Both ways at once: a node or a backend that has gone answers nothing any more.
                pair.abort()
                return
            writer.write(chunk)
            await writer.drain()

    async def _while(self, direction: str, state: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._state[direction] != state)


class _Pair:
    """The two ends of one connection."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.broken = False

    def abort(self) -> None:
        """End both."""
        for writer in self._writers:
            with suppress(OSError, RuntimeError):
                writer.transport.abort()


class Lines:
    """All lines of an arm, in a thread of their own. ``dsn`` is what they lead to: one server, by host and port."""

    def __init__(self, dsn: str, directory: Path) -> None:
        given = conninfo_to_dict(dsn)
        host, port = str(given.get("host") or ""), str(given.get("port") or "5432")
        if not host or "," in host or "," in port or not port.isdigit():
            raise Refused(f"lines to a server need a DSN with one host and one port, not {host!r} and {port!r}")
        self._dsn = dsn
        self._address, self._port = host, int(port)
        self._directory = directory
        self._lines: dict[str, Line] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rig-lines", daemon=True)
        self._thread.start()

    def open(self, slots: Sequence[str]) -> None:
        """Make a line for each slot."""
        self._directory.mkdir()
        for number, slot in enumerate(slots):
            place = self._directory / str(number)
            place.mkdir()
            line = Line(self._address, self._port)
            self._run(line.serve(place / f".s.PGSQL.{self._port}"))
            self._lines[slot] = line

    def dsn(self, slot: str) -> str:
        """Return the connection string that leads through the slot's line."""
        place = self._directory / str(list(self._lines).index(slot))
        return make_conninfo(self._dsn, host=str(place), port=self._port, hostaddr=None)

    def set(self, slot: str, state: str, *directions: str) -> dict[str, int]:
        """Change a line; return what it held and dropped since its last change."""
        return self._run(self._lines[slot].set(state, *directions))

    def close(self) -> None:
        """End all lines and their thread."""
        for line in self._lines.values():
            with suppress(TimeoutError):
                self._run(line.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_ANSWER_S)


class _LineNemesis(NodeNemesis):
    """Something that happens to one node's line for a while."""

    state = _DROPPED
    directions: tuple[str, ...] = (TO_SERVER, TO_NODE)

    def strike(self, node: Node) -> bool:
        """Change the line."""
        lines = self.ground.lines
        assert lines is not None
        self.tell(
            f"{' and '.join(self.directions)} {self.state}", child=node.order.process, child_pid=node.identity.pid
        )
        lines.set(node.order.slot, self.state, *self.directions)
        self.lasts_from_now()
        return True

    def release(self, node: Node) -> None:
        """Let everything pass again, and tell how much did not."""
        lines = self.ground.lines
        assert lines is not None
        told = lines.set(node.order.slot, _OPEN, TO_SERVER, TO_NODE)
        proof = f"{told[_DROPPED]} bytes dropped, {told[_HELD]} bytes held"
        self.tell_over(proof, child=node.order.process, child_pid=node.identity.pid)


class Cut(_LineNemesis):
    """Drop everything between a node and the server; the node keeps reaching everything else."""

    action = "cut"


class Deafen(_LineNemesis):
    """Drop the server's answers and let a node's requests through: what it commits is committed, and it is not told."""

    action = "deafen"
    directions = (TO_NODE,)


class Delay(_LineNemesis):
    """Hold everything back and deliver it later, as a network that comes back: old commits arrive behind new ones."""

    action = "delay"
    state = _HELD
