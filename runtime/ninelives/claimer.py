"""When a node claims: as soon as something may be due, and what dead nodes held by whoever has least to do.

Every node hears of a death. Each waits the longer the more it has in flight, so that an idle node takes over first and
a busy one only what is left. The poll does not wait, so nothing rests on the hearing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection
from typing import Final, Protocol

from ninelives.outstanding import Outstanding
from ninelives.settings import Settings
from ninelives.store.claims import Limits
from ninelives.store.control import Control
from ninelives.store.rows import Claimed

log = logging.getLogger("ninelives.claimer")

CLAIM_ROWS_MAX: Final = 200
RECOVERY_ROWS_MAX: Final = 500
DEFERENCE_S: Final = 0.0002
"""How long a node waits with a takeover for each flow that it has in flight, up to ``DEFERENCE_S_MAX``."""
DEFERENCE_S_MAX: Final = 0.02


class Claimant(Protocol):
    """What a claimer needs of its node."""

    settings: Settings
    control: Control
    outstanding: Outstanding

    @property
    def session_id(self) -> int:
        """The present session."""

    @property
    def leaving(self) -> bool:
        """Whether nothing may be claimed any more."""

    @property
    def in_flight(self) -> int:
        """Activations at work."""

    @property
    def room(self) -> int:
        """How many more instances the node takes; negative after takeovers."""

    @property
    def plan_ids(self) -> Collection[int]:
        """The plans that the node carries."""

    @property
    def suspected(self) -> bool:
        """Whether an instance that may be poison is at work."""

    def activate(self, claimed: Claimed) -> None:
        """Run a claimed instance."""


class Claimer:
    """The loop that claims for a node."""

    def __init__(self, node: Claimant) -> None:
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._saturated = False
        self._orphans = True
        self.takeovers = 0
        self.asked = 0
        """How many instances a claim that is under way may bring."""

    def wake(self) -> None:
        """Something may be due."""
        self._due.set()

    def wake_for_orphans(self) -> None:
        """A node died: claim what it held, after those that have less to do."""
        self._loop.call_later(min(DEFERENCE_S_MAX, self._node.in_flight * DEFERENCE_S), self._take_orphans)

    def room_made(self) -> None:
        """An activation ended: claim again if the last claim left something behind."""
        if self._saturated and self._node.room > 0:
            self._saturated = False
            self._due.set()

    async def run(self) -> None:
        """Claim whenever something may be due: a notification, a death, room, or a poll."""
        poll_s = self._node.settings.poll_s
        jitter = random.Random(self._node.session_id)
        poll_at = self._loop.time() + poll_s * jitter.uniform(0.75, 1.25)
        while not self._node.leaving:
            polled = False
            try:
                async with asyncio.timeout_at(poll_at):
                    await self._due.wait()
            except TimeoutError:
                polled = True
            # By the clock: a node that is woken all the time must not forget to look for orphans.
            if polled or self._loop.time() >= poll_at:
                self._orphans = True
                poll_at = self._loop.time() + poll_s * jitter.uniform(0.75, 1.25)
            self._due.clear()
            try:
                while await self._claim():
                    pass
            except Exception:
                log.exception("a claim failed; the next one comes within %.1f s", poll_s)

    async def _claim(self) -> bool:
        """Claim once; true when there is probably more."""
        node = self._node
        if node.leaving or not node.plan_ids:
            return False
        limits = self._limits()
        claim = node.outstanding.begin()
        self.asked = limits.due
        try:
            session_id = node.session_id
            taken = await node.control.claim(session_id, list(node.plan_ids), limits)
            if session_id != node.session_id or taken is None:
                return False
            for claimed in taken:
                self.takeovers += claimed.takeover
                node.activate(claimed)
        finally:
            self.asked = 0
            node.outstanding.end(claim)
        orphans = sum(claimed.takeover for claimed in taken)
        more_orphans = 0 < limits.orphaned <= orphans
        self._orphans = self._orphans and more_orphans
        self._saturated = limits.due == 0 or len(taken) - orphans >= limits.due
        return more_orphans or 0 < limits.due <= len(taken) - orphans

    def _limits(self) -> Limits:
        node = self._node
        # Half of the room: the other half is for what is started here while the claim is under way.
        due = max(0, min(CLAIM_ROWS_MAX, (node.room + 1) // 2))
        recovery = due + min(0, node.room) + node.settings.recovery_in_flight_max
        return Limits(
            due=due,
            orphaned=max(0, min(RECOVERY_ROWS_MAX, recovery)) if self._orphans else 0,
            suspicious_claims=node.settings.suspicious_claims,
            suspects=int(not node.suspected),
        )

    def _take_orphans(self) -> None:
        self._orphans = True
        self._due.set()
