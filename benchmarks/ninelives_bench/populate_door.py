"""A way into the store for measurements: a node's session, lanes and control connection, without watch and claims."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ninelives.client import Client
from ninelives.queries import load
from ninelives.session import Session
from ninelives.settings import Settings
from ninelives.store.claims import Limits
from ninelives.store.rows import Claimed

T = TypeVar("T")


class Door(Client):
    """A client that holds leases like a node; what it claims, and when, is the measurement's own."""

    def __init__(self, dsn: str, *, settings: Settings | None = None) -> None:
        super().__init__(dsn, settings=settings)
        self.session = Session(dsn, load("ninelives"), "bench", self.settings, self._on_session_lost)
        self.lost = False

    async def open(self) -> None:
        """Open the session, then what a client opens."""
        await asyncio.to_thread(self.session.open)
        try:
            await super().open()
        except BaseException:
            await asyncio.to_thread(self.session.close)
            raise

    async def close(self) -> None:
        """Close everything, the session last."""
        await super().close()
        await asyncio.to_thread(self.session.close)

    async def take(self, plan_id: int, limits: Limits) -> list[Claimed]:
        """Claim as a node does; raises RuntimeError when the claim was not answered or the session is gone."""
        taken = await self.control.claim(self.session.session_id, [plan_id], limits)
        if taken is None or self.lost:
            raise RuntimeError("the claim was not answered, or the session expired; the measurement is void")
        return taken

    def _on_session_lost(self, session: Session) -> None:
        self.lost = True

    def _application_name(self) -> str:
        return self.session.application_name

    def _lane_session(self) -> int:
        return self.session.session_id

    async def _open_lanes(self, count: int) -> None:
        await super()._open_lanes(self.settings.lanes)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop, as the command line runs a node."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
