"""One takeover at a time, from the question for orphans to the next command of the one that was there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import psycopg

from ninelives.claimer import CLAIM_ROWS_MAX, RECOVERY_ROWS_MAX
from ninelives.decide import RunStep
from ninelives.plan import Plan
from ninelives.recall import Recall
from ninelives.store.claims import Limits
from ninelives.store.rows import Claimed
from ninelives_bench.populate import Abandoned, Journal, read_nothing
from ninelives_bench.populate_door import Door

VACUUM_EVERY: Final = 200
_MS: Final = 1e-6

Column = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scene:
    """What is taken over: instances of one plan with one journal."""

    plan: Plan
    plan_id: int
    journal: Journal


class Takeovers:
    """What was taken: times in nanoseconds, one entry for each instance."""

    def __init__(self) -> None:
        self._claim_ns: list[int] = []
        self._recall_ns: list[int] = []
        self.rows_read = 0
        self.failed = 0

    def add(self, claim_ns: int, recall_ns: int, rows_read: int, right: bool) -> None:
        """Note one takeover; `recall_ns` includes the decision."""
        self._claim_ns.append(claim_ns)
        self._recall_ns.append(recall_ns)
        self.rows_read += rows_read
        self.failed += not right

    def columns(self) -> dict[str, Column]:
        """Return the samples in milliseconds: the whole, the claim with its reads, and what Python makes of them."""
        claim = np.array(self._claim_ns, dtype=np.float64) * _MS
        recall = np.array(self._recall_ns, dtype=np.float64) * _MS
        return {"ms": claim + recall, "claim_ms": claim, "recall_ms": recall}


class Mortuary:
    """Makes one session at a time dead, outside of what is timed; use `with`.

    The holders have no row before their turn and none after it, so that a claim finds as many dead sessions as a
    fleet would have, and not a thousand.
    """

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def bury(self, holder: int) -> None:
        """From now on the holder is a dead session."""
        self._connection.execute(
            "insert into ninelives.node_session values"
            " (%s, 'dead', pg_postmaster_start_time(), now(), now() + interval '1 min', now())",
            (holder,),
        )

    def forget(self, holder: int) -> None:
        """Remove its row, and now and then what such rows leave behind."""
        self._connection.execute("delete from ninelives.node_session where session_id = %s", (holder,))
        self._count += 1
        if self._count % VACUUM_EVERY == 0:
            self._connection.execute("vacuum ninelives.node_session")


def limits(door: Door) -> Limits:
    """Return the limits of an idle node's claim."""
    return Limits(CLAIM_ROWS_MAX, RECOVERY_ROWS_MAX, door.settings.suspicious_claims, 1)


async def take_each(
    door: Door, mortuary: Mortuary, scene: Scene, orphans: Iterable[Abandoned], into: Takeovers
) -> None:
    """Take over one instance after the other."""
    wanted, clock = limits(door), time.perf_counter_ns
    for orphan in orphans:
        mortuary.bury(orphan.holder)
        began = clock()
        taken = await door.take(scene.plan_id, wanted)
        answered = clock()
        recalls = [Recall(scene.plan, claimed, read_nothing) for claimed in taken]
        commands = [recall.decide().commands for recall in recalls]
        decided = clock()
        mortuary.forget(orphan.holder)
        only = len(taken) == 1 and taken[0].instance_id == orphan.instance_id
        right = only and is_right(scene.journal, taken[0], recalls[0], commands[0])
        into.add(answered - began, decided - answered, sum(len(claimed.steps) for claimed in taken), right)


def is_right(journal: Journal, claimed: Claimed, recall: Recall, commands: tuple[object, ...]) -> bool:
    """Tell whether a takeover goes on exactly behind the last committed step."""
    if len(commands) != 1 or not isinstance(commands[0], RunStep):
        return False
    command = commands[0]
    return (
        claimed.takeover
        and len(claimed.steps) == journal.rows_behind
        and recall.frontier.done_to == journal.depth
        and (command.node.step_id, command.attempt) == (journal.depth + 1, 1)
    )
