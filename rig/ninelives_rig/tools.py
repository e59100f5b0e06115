"""What a step body and an engine's node get from the rig inside a node's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from ninelives_rig.armory import Armory
from ninelives_rig.engines.base import WORKLOAD_ENTERED, WORKLOAD_RETURNED, NodeOrder, Starter, StepSpec
from ninelives_rig.recorder import Recorder
from ninelives_rig.sink import Record, Sink, Voided
from ninelives_rig.starts import StartList, keep_in_flight
from ninelives_rig.witness import Witness


class StepRefused(Exception):
    """What a step that has to fail first raises, before it has any effect."""


@dataclass(frozen=True)
class Visit:
    """One execution of a step: which, by whom, under which key. Engines without tokens or attempts say 0."""

    instance_id: UUID
    scope: str
    step_id: int
    attempt: int
    token: int
    key: str


@dataclass
class NodeTools:
    """The rig's instruments in one node."""

    order: NodeOrder
    recorder: Recorder
    witness: Witness
    sink: Sink
    armory: Armory
    starts: StartList
    stopping: asyncio.Event

    def entered(self, step: StepSpec, visit: Visit) -> None:
        """Open a step body: a kill may be armed here, and a step that must fail first fails here."""
        self._reached(WORKLOAD_ENTERED, visit)
        if visit.attempt <= step.failures:
            raise StepRefused(f"step {step.name!r} fails its attempt {visit.attempt} of {step.failures} by design")

    def returning(self, visit: Visit) -> None:
        """Close a step body: the effect has happened, and the engine has not been told yet."""
        self._reached(WORKLOAD_RETURNED, visit)

    def affect(self, visit: Visit) -> None:
        """Have an effect that repeats whenever the step does."""
        self.witness.effect(visit.instance_id, visit.scope, visit.step_id, visit.attempt, visit.token, "do", visit.key)

    def affect_once(self, visit: Visit) -> Record:
        """Have an effect through the sink. A call that the sink did not need or refused is witnessed as
        such.
        """
        place = (visit.instance_id, visit.scope, visit.step_id, visit.attempt, visit.token)
        try:
            applied = self.sink.apply(visit.key, self.witness.describe(*place, "do", visit.key))
        except Voided:
            self.witness.effect(*place, "voided", visit.key)
            raise
        if not applied.first:
            self.witness.effect(*place, "repeat", visit.key)
        return applied.record

    async def serve_starts(self, starter: Starter, is_refusal: Callable[[Exception], bool]) -> None:
        """Start this slot's instances, ``in_flight`` at a time, until none is owed or the node stops."""
        await keep_in_flight(starter, self.starts, self.order.in_flight, self.recorder, self.stopping, is_refusal)

    def _reached(self, boundary: str, visit: Visit) -> None:
        self.armory.reached(boundary, visit.instance_id, visit.scope, visit.step_id, visit.attempt, visit.token)
