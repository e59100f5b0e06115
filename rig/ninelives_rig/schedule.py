"""From a seed to everything that a run decides by chance: instance ids, who starts them, the kill schedule.

Pure: the same arm, engine capabilities and seed give the same lists, before any process exists.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from ninelives_rig.campaign import Arm, KillPlan
from ninelives_rig.engines.base import Capabilities, Position, Workload
from ninelives_rig.refusal import Refused

COORDINATOR = "coordinator"
WORKER = "worker"
SEED_MAX = (1 << 63) - 1
"""What the JSON and the tables of a bundle can hold."""


@dataclass(frozen=True)
class Instance:
    """One instance of an arm, known before any node exists."""

    index: int
    instance_id: UUID
    started_by: str


@dataclass(frozen=True)
class Kill:
    """One kill: the first process to reach ``boundary`` of the step of the instance dies there.

    ``step_id`` 0 is any step; ``instance_id`` None any instance.
    """

    kill_id: str
    instance_id: UUID | None
    step_id: int
    boundary: str
    position: str
    token_min: int = 0
    role: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the schedule's record of this kill."""
        return {
            "kill_id": self.kill_id,
            "instance_id": None if self.instance_id is None else str(self.instance_id),
            "step_id": self.step_id,
            "boundary": self.boundary,
            "position": self.position,
            "token_min": self.token_min,
            "role": self.role,
        }


def draw_instances(arm: Arm, seed: int) -> list[Instance]:
    """Name the arm's instances and who starts each.

    Ids are version 7 in form and rise with the index, which is kind to the database's indexes. The two ways
    of starting alternate over the indexes, so that both are under way all the time.
    """
    instances = []
    owed = 0.0
    for index in range(arm.flows):
        owed += arm.coordinator_share
        by_coordinator = owed >= 1 - 1e-9
        owed -= 1 if by_coordinator else 0
        started_by = COORDINATOR if by_coordinator else WORKER
        instances.append(Instance(index, instance_id(seed, arm.name, index), started_by))
    return instances


def instance_id(seed: int, arm: str, index: int) -> UUID:
    """Return the id of an arm's instance of this index."""
    series = int.from_bytes(hashlib.sha256(f"{seed}/{arm}".encode()).digest()[:3])
    tail = int.from_bytes(hashlib.sha256(f"{seed}/{arm}/{index}".encode()).digest()[:10])
    value = (series << 24 | index) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def draw_kills(arm: Arm, capabilities: Capabilities, seed: int, instances: Sequence[Instance]) -> list[Kill]:
    """Spread the arm's kills evenly over its instances with jitter, over both start kinds and over the
    steps.
    """
    rng = random.Random(f"{seed}/{arm.name}/kills")
    plans = list(_entries(arm, rng))
    kills: list[Kill] = []
    step_turns: dict[KillPlan, int] = {}
    taken: set[int] = set()
    for turn, plan in enumerate(plans):
        turn_of_plan = step_turns.get(plan, 0)
        step_turns[plan] = turn_of_plan + 1
        steps = plan.steps or _steps(plan.position, arm.workload)
        step_id = steps[turn_of_plan // 2 % len(steps)]
        target = None
        if not plan.any_instance:
            wanted = plan.start_kind or (COORDINATOR if turn_of_plan % 2 == 0 else WORKER)
            target = _pick(turn, len(plans), instances, wanted, taken, rng)
            taken.add(target.index)
        for kill in _resolve(plan, step_id, target, arm.effect, capabilities):
            if len(kills) < arm.kills:
                kills.append(_numbered(kill, len(kills) + 1))
    return kills


def _entries(arm: Arm, rng: random.Random) -> Iterator[KillPlan]:
    """Deal the plans by their shares (largest debt first) until their kills add up to the arm's."""
    if arm.kills and not arm.kill_plans:
        raise Refused(f"arm {arm.name!r} asks for {arm.kills} kills and plans none")
    plans = list(arm.kill_plans)
    rng.shuffle(plans)
    total = sum(plan.share for plan in plans)
    debts = dict.fromkeys(plans, 0.0)
    dealt = 0
    while dealt < arm.kills:
        for plan in plans:
            debts[plan] += plan.share / total
        plan = max(plans, key=lambda plan: debts[plan])
        debts[plan] -= 1
        dealt += 2 if plan.after else 1
        yield plan


def _steps(position: str, workload: Workload) -> Sequence[int]:
    """Step ids a position may lie at: behind the last step's commit there is no next step to resume with.

    A wait for a signal has no body to die in, neither at its own position nor behind the step in front of it.
    """
    last = len(workload.steps)
    waits = {step_id for step_id, _ in workload.waits}
    if position == "after-commit" and last > 1:
        return [step_id for step_id in range(1, last) if not waits & {step_id, step_id + 1}]
    return [step_id for step_id in range(1, last + 1) if step_id not in waits]


def _pick(
    turn: int,
    turns: int,
    instances: Sequence[Instance],
    wanted: str,
    taken: set[int],
    rng: random.Random,
) -> Instance:
    """Choose a free instance from this turn's equal share of the list, of the wanted start kind if there is
    one.
    """
    first, last = turn * len(instances) // turns, (turn + 1) * len(instances) // turns
    free = [one for one in instances[first:last] if one.index not in taken]
    if not free:
        free = [one for one in instances if one.index not in taken]
    matching = [one for one in free if one.started_by == wanted]
    return rng.choice(matching or free)


def _resolve(
    plan: KillPlan, step_id: int, target: Instance | None, effect: str, capabilities: Capabilities
) -> Iterator[Kill]:
    """Turn an entry into its kills: the one that forces a takeover, if the plan wants it, and the one
    meant.
    """
    instance = None if target is None else target.instance_id
    if plan.after:
        where = capabilities.position(plan.after, effect)
        yield Kill("", instance, _shifted(step_id or 1, where), where.boundary, plan.after)
    where = capabilities.position(plan.position, effect)
    yield Kill("", instance, _shifted(step_id, where), where.boundary, plan.position, plan.token_min, plan.role)


def _shifted(step_id: int, where: Position) -> int:
    return step_id + where.step_offset if step_id else 0


def _numbered(kill: Kill, number: int) -> Kill:
    return Kill(
        f"k{number:04d}",
        kill.instance_id,
        kill.step_id,
        kill.boundary,
        kill.position,
        kill.token_min,
        kill.role,
    )
