"""One flow at a time, so that each kill's consequence can be counted exactly, for each of the three effects."""

from ninelives_rig.campaign import Arm, Campaign, KillPlan
from ninelives_rig.engines.base import EFFECTS, StepSpec, Workload

SERVICE_S = 0.02

# What one kill causes: (duplicates in the documented window, doubts). Everything else is 0.
_PER_KILL = {
    ("idempotent", "before-commit"): (1, 0),
    ("at_most_once", "before-commit"): (0, 1),
}


def _arm(effect: str, position: str) -> Arm:
    documented, in_doubt = _PER_KILL.get((effect, position), (0, 0))
    steps = tuple(StepSpec(name, effect, SERVICE_S) for name in ("one", "two", "three"))
    return Arm(
        name=f"{effect}.{position}",
        workload=Workload(f"rig.{effect}", steps),
        effect=effect,
        position=position,
        kill_plans=(KillPlan(position),),
        flows=60,
        kills=20,
        workers=1,
        recovery_nodes=1,
        in_flight=1,
        flows_max=1,
        takeovers_max=0,
        coordinator_share=0.0,
        ttl_s=30.0,
        expect_per_kill={
            "duplicates_documented": documented,
            "duplicates_against": 0,
            "in_doubt": in_doubt,
        },
    )


CAMPAIGN = Campaign(
    name="isolated",
    summary="60 flows an arm, one at a time, 20 kills: exact counts for each effect and position",
    arms=tuple(_arm(effect, position) for effect in EFFECTS for position in ("before-commit", "after-commit")),
)
