"""When a node claims: what it asks for when it is woken all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ninelives.claimer import Claimant, Claimer
from ninelives.outstanding import Outstanding
from ninelives.settings import Settings
from ninelives.store.claims import Limits
from ninelives.store.rows import Claimed


class _Wakeful:
    """A control that finds nothing due, and behind which something may be due again at once."""

    def __init__(self) -> None:
        self.asked_for_orphans = 0
        self.enough = asyncio.Event()
        self.claimer: Claimer | None = None

    async def claim(self, session_id: int, plan_ids: Sequence[int], limits: Limits) -> list[Claimed]:
        assert self.claimer is not None
        self.asked_for_orphans += limits.orphaned > 0
        if self.asked_for_orphans >= 3:
            self.enough.set()
        asyncio.get_running_loop().call_later(0.005, self.claimer.wake)
        return []


def test_a_node_that_is_woken_all_the_time_still_looks_for_orphans() -> None:
    """A death that nobody told of must not wait until there is nothing else to do."""

    async def scenario() -> int:
        control = _Wakeful()
        node: Any = SimpleNamespace(
            settings=Settings(poll_s=0.05), control=control, outstanding=Outstanding(), session_id=1, leaving=False,
            in_flight=0, room=1, plan_ids=[1], suspected=False, activate=lambda claimed: None,
        )  # fmt: skip
        control.claimer = Claimer(cast(Claimant, node))
        running = asyncio.create_task(control.claimer.run())
        try:
            await asyncio.wait_for(control.enough.wait(), 10.0)
        finally:
            running.cancel()
        return control.asked_for_orphans

    assert asyncio.run(scenario()) >= 3


class _Held:
    """A control whose claim is under way until it is let go."""

    def __init__(self) -> None:
        self.limits: list[Limits] = []
        self.under_way, self.answer = asyncio.Event(), asyncio.Event()

    async def claim(self, session_id: int, plan_ids: Sequence[int], limits: Limits) -> list[Claimed]:
        self.limits.append(limits)
        self.under_way.set()
        await self.answer.wait()
        return []


@pytest.mark.parametrize(
    ("room", "recovery", "due", "orphaned"), [(1, 0, 1, 1), (8, 0, 4, 4), (0, 5, 0, 5), (-3, 5, 0, 2), (-9, 5, 0, 0)]
)
def test_a_claim_asks_for_half_of_the_room_and_says_so_while_it_is_under_way(
    room: int, recovery: int, due: int, orphaned: int
) -> None:
    """The other half is for starts: both together never fill more than there is."""

    async def scenario() -> tuple[int, int, int, int]:
        control = _Held()
        node: Any = SimpleNamespace(
            settings=Settings(recovery_in_flight_max=recovery), control=control, outstanding=Outstanding(),
            session_id=1, leaving=False, in_flight=0, room=room, plan_ids=[1], suspected=False,
        )  # fmt: skip
        claimer = Claimer(cast(Claimant, node))
        claimer.wake()
        running = asyncio.create_task(claimer.run())
        await asyncio.wait_for(control.under_way.wait(), 10.0)
        asked = claimer.asked
        control.answer.set()
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        return asked, claimer.asked, control.limits[0].due, control.limits[0].orphaned

    assert asyncio.run(scenario()) == (due, 0, due, orphaned)
