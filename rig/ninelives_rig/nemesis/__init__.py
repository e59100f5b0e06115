"""The faults that the coordinator inflicts, by the action that a campaign names."""

from __future__ import annotations

from ninelives_rig.nemesis.base import Ground, Nemesis
from ninelives_rig.nemesis.lines import Cut, Deafen, Delay
from ninelives_rig.nemesis.processes import Block, Bury, Freeze, Starve, Terminate
from ninelives_rig.nemesis.server import Crash, FreezeServer, Restart
from ninelives_rig.nemesis.statements import EndBackends, HoldSnapshot, Impatient, ReadOnly, TakeConnections

NEMESES: dict[str, type[Nemesis]] = {
    one.action: one
    for one in (
        *(Terminate, Bury, Freeze, Starve, Block),
        *(Cut, Deafen, Delay),
        *(Crash, Restart, FreezeServer),
        *(ReadOnly, Impatient, EndBackends, HoldSnapshot, TakeConnections),
    )
}

__all__ = ["NEMESES", "Ground", "Nemesis"]
