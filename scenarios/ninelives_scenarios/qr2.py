"""The resume requirement at its own scale: nodes die at step boundaries all through 10 000 flows, per arm."""

from ninelives_rig.campaign import Arm, Campaign, KillPlan
from ninelives_rig.engines.base import StepSpec, Workload

# A killed flow has at most three of these ahead of it, and resuming it must not take half a second.
SERVICE_S = 0.05
# Nodes die several times a second. One that held many more than the 32 flows asked for would pass them on in heaps.
FLOWS_MAX = 32
# Recovery nodes are there to take over, and have little else to do.
RECOVERY_FLOWS_MAX = 1

_THREE_STEPS = Workload(
    "rig.three_steps", tuple(StepSpec(name, service_s=SERVICE_S) for name in ("one", "two", "three"))
)


def _arm(position: str) -> Arm:
    return Arm(
        name=position,
        workload=_THREE_STEPS,
        position=position,
        kill_plans=(KillPlan(position),),
        flows=10_000,
        kills=100,
        workers=3,
        recovery_nodes=2,
        in_flight=32,
        flows_max=FLOWS_MAX,
        recovery_flows_max=RECOVERY_FLOWS_MAX,
        ttl_s=30.0,
    )


CAMPAIGN = Campaign(
    name="qr2",
    summary="10 000 three-step flows an arm, about 100 nodes killed at step boundaries, lease TTL 30 s",
    arms=(_arm("before-commit"), _arm("after-commit")),
)
