"""What became of the instances that a killed process held: how long until their next effect, and until
their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ninelives_rig.checkers.facts import TERMINAL, Facts

NS_PER_S = 1_000_000_000


class Blow(Protocol):
    """What hits a process at a time: a kill, or another fault."""

    @property
    def kill_id(self) -> str:
        """Which one."""

    @property
    def t(self) -> int:
        """When, in ns."""

    @property
    def pid(self) -> int:
        """Whom."""


@dataclass(frozen=True)
class Abandoned:
    """An instance that a process held when it was hit, unfinished; times in ns, ``None`` if it never came.

    ``terminal_t`` is when its end was acknowledged to a node, or its last holder died behind it; ``effect_t`` its next
    effect by another process.
    """

    kill: Blow
    instance_id: str
    effect_t: int | None
    terminal_t: int | None
    moved_on: bool


class Recovery:
    """Follows every proved kill to the instances that it abandoned."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        ends = facts.finishes.groupby("instance_id")["t"].min()
        self._ends = _untold_ends(facts) | {str(instance_id): int(t) for instance_id, t in ends.items()}
        self._holds = _Timeline(facts.possession)
        self._effects = _Timeline(facts.effects)

    @cached_property
    def abandoned(self) -> tuple[Abandoned, ...]:
        """One entry for each proved kill and instance that it left unfinished."""
        possession = self._facts.possession
        touched = {pid: set(ids) for pid, ids in possession.groupby("pid")["instance_id"]}
        return tuple(
            entry
            for kill in self._facts.kills
            if kill.proved
            for instance_id in sorted(touched.get(kill.pid, ()))
            for entry in self._left(kill, instance_id)
        )

    def _left(self, kill: Blow, instance_id: str) -> Iterator[Abandoned]:
        """Yield the instance if the killed process was the last to hold it, and it had not ended."""
        terminal_t = self._ends.get(instance_id)
        if terminal_t is not None and terminal_t <= kill.t:
            return
        times, pids = self._holds.of(instance_id)
        before = np.flatnonzero(times <= kill.t)
        if not len(before) or pids[before[-1]] != kill.pid:
            return
        effect_times, effect_pids = self._effects.of(instance_id)
        effects = effect_times[(effect_times > kill.t) & (effect_pids != kill.pid)]
        later = (times > kill.t) & (pids != kill.pid)
        yield Abandoned(
            kill=kill,
            instance_id=instance_id,
            effect_t=int(effects.min()) if len(effects) else None,
            terminal_t=terminal_t,
            moved_on=bool(later.any()) or terminal_t is not None,
        )

    def taken_from(self, blow: Blow) -> Iterator[Abandoned]:
        """Yield what a process held when it was hit, unfinished, and another process went on with."""
        possession = self._facts.possession
        for instance_id in sorted(set(possession.loc[possession["pid"] == blow.pid, "instance_id"])):
            for entry in self._left(blow, instance_id):
                times, pids = self._holds.of(instance_id)
                if ((times > blow.t) & (pids != blow.pid)).any():
                    yield entry

    def unfinished_at(self, t: int) -> Iterator[int]:
        """Yield the end of each instance that had been held by then and had not ended."""
        possession = self._facts.possession
        for instance_id in sorted(set(possession.loc[possession["t"] <= t, "instance_id"])):
            end = self._ends.get(str(instance_id))
            if end is not None and end > t:
                yield end

    @cached_property
    def recovered(self) -> int:
        """Instances that were abandoned, went on in another process, and are terminal now."""
        states = self._facts.states
        return len(
            {
                entry.instance_id
                for entry in self.abandoned
                if entry.moved_on and states.get(entry.instance_id) in TERMINAL
            }
        )

    @property
    def resume_s(self) -> list[float]:
        """Seconds from each kill's receipt to the end of each instance that it abandoned."""
        return [
            (entry.terminal_t - entry.kill.t) / NS_PER_S for entry in self.abandoned if entry.terminal_t is not None
        ]

    @property
    def next_effect_s(self) -> list[float]:
        """Seconds from each kill's receipt to the next effect of each abandoned instance, where there was
        one.
        """
        return [(entry.effect_t - entry.kill.t) / NS_PER_S for entry in self.abandoned if entry.effect_t is not None]


def fault_resume_s(facts: Facts) -> list[float]:
    """Seconds from each fault to the end of each instance that it took from its holder, or that had to wait for it.

    A fault of a node counts from its beginning, over the instances that another process went on with; one of the server
    from its return, over all that were held when it went.
    """
    recovery = recovery_of(facts)
    waits = []
    for fault in facts.faults:
        if fault.pid:
            waits += [(entry.terminal_t, fault.t) for entry in recovery.taken_from(fault)]
        elif fault.over_t is not None:
            waits += [(terminal_t, fault.over_t) for terminal_t in recovery.unfinished_at(fault.t)]
    return [max(0, end - begin) / NS_PER_S for end, begin in waits if end is not None]


def _untold_ends(facts: Facts) -> dict[str, int]:
    """Return the ends that nobody told of: the holder died behind its commit, so that its death is the latest time."""
    deaths = {kill.pid: kill.t for kill in facts.kills if kill.proved}
    return {
        instance_id: deaths[pid]
        for instance_id, pid in facts.last_holder.items()
        if pid in deaths and facts.states.get(instance_id) in TERMINAL
    }


Numbers = np.ndarray[Any, np.dtype[np.int64]]
_NOTHING: Numbers = np.array([], dtype=np.int64)


class _Timeline:
    """Times and pids of a frame's rows by instance, in the order of the frame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._times = frame["t"].to_numpy(dtype=np.int64)
        self._pids = frame["pid"].to_numpy(dtype=np.int64)
        self._places = frame.groupby("instance_id").indices

    def of(self, instance_id: str) -> tuple[Numbers, Numbers]:
        """Return the times and the pids of one instance's rows."""
        places = self._places.get(instance_id)
        return (_NOTHING, _NOTHING) if places is None else (self._times[places], self._pids[places])


@lru_cache(maxsize=1)
def recovery_of(facts: Facts) -> Recovery:
    """Return the recovery of an arm, computed once while that arm is judged."""
    return Recovery(facts)
