"""Nodes that come back from the dead, at the main campaign's own size: frozen, cut off, and with late mail."""

from ninelives_rig.campaign import Campaign, Disturbance
from ninelives_rig.engines.base import StepSpec, Workload
from ninelives_scenarios.faults import LONG_S, make_arm

FLOWS = 10_000
FAULTS = 12
# Slow enough for each fault to hit a node that is at work: one that is afflicted already is left alone meanwhile.
WORKLOAD = Workload(
    "rig.zombies", tuple(StepSpec(name, service_s=0.15, lead_s=0.15) for name in ("one", "two", "three"))
)


def _faults(action: str) -> tuple[Disturbance, ...]:
    return tuple(Disturbance(action, 0.8 * (turn + 1) / (FAULTS + 1), hold_s=LONG_S) for turn in range(FAULTS))


CAMPAIGN = Campaign(
    name="zombies",
    summary="12 nodes in each arm frozen, cut off or heard late beyond their TTL, over 10 000 flows, and then back",
    arms=tuple(
        make_arm(
            name,
            workload=WORKLOAD,
            flows=FLOWS,
            in_flight=32,
            flows_max=64,
            converge_timeout_s=600.0,
            disturbances=_faults(action),
        )
        for name, action in (("freeze", "freeze"), ("partition", "cut"), ("late-delivery", "delay"))
    ),
)
