"""The failure catalogue, one arm for each fault: nodes killed, frozen and cut off, the server crashed and starved."""

from ninelives_rig.campaign import Arm, Campaign, Disturbance, KillPlan
from ninelives_rig.engines.base import LostAnswers, StepSpec, Workload

FLOWS = 1000
TTL_S = 2.0
# Before its effect, so that a node which is stopped then has it as a zombie, and behind it.
LEAD_S, SERVICE_S = 0.04, 0.02
# Beyond the TTL, so that whoever it hits is a zombie when it comes back.
LONG_S = 2.5 * TTL_S
# As the catalogue asks for: a step that keeps the processor for twelve seconds.
STARVED_S = 12.0
# Below a TTL: nobody has to lose a lease.
SHORT_S = 0.5 * TTL_S

WORKLOAD = Workload(
    "rig.faults", tuple(StepSpec(name, service_s=SERVICE_S, lead_s=LEAD_S) for name in ("one", "two", "three"))
)


def make_arm(
    name: str, *, workload: Workload = WORKLOAD, kills: int = 0, plans: tuple[KillPlan, ...] = (), **changes: object
) -> Arm:
    """Make an arm; what is not said is the same in all of them, so that their figures can be compared."""
    settings: dict[str, object] = {
        "flows": FLOWS,
        "workers": 3,
        "recovery_nodes": 2,
        "in_flight": 8,
        "flows_max": 16,
        "ttl_s": TTL_S,
        "converge_timeout_s": 120.0,
    }
    return Arm(
        name=name,
        workload=workload,
        position="before-commit",
        kill_plans=plans or (KillPlan("before-commit"),),
        kills=kills,
        **{**settings, **changes},  # type: ignore[arg-type]  # the fields of an arm, by name
    )


def fault(action: str, *at_done: float, hold_s: float = LONG_S, role: str = "worker") -> tuple[Disturbance, ...]:
    """Return one fault of this kind for each share of the flows."""
    return tuple(Disturbance(action, share, role, hold_s) for share in at_done)


def outlast(name: str, action: str, ttl_s: float) -> Arm:
    """Make an arm of another TTL, with one fault that lasts beyond it."""
    faults = fault(action, _EARLY, hold_s=1.3 * ttl_s)
    return make_arm(f"{name}-ttl-{ttl_s:.0f}", ttl_s=ttl_s, disturbances=faults, converge_timeout_s=10 * ttl_s)


_EARLY, _MIDDLE, _LATE = 0.05, 0.3, 0.55

CAMPAIGN = Campaign(
    name="faults",
    summary="one arm for each fault: kill, freeze, partitions, lost answers, a server that crashes, freezes, starves",
    arms=(
        make_arm("kill", kills=12),
        make_arm(
            "kill-recovery",
            kills=12,
            plans=(
                KillPlan("claim.committed", steps=(0,), token_min=2, after="before-commit"),
                KillPlan("before-commit", token_min=2, after="before-commit"),
                KillPlan("after-commit", token_min=2, after="before-commit"),
            ),
        ),
        # One node dies with everything, and thirty sweep for it at once.
        make_arm(
            "sweepers", kills=1, workers=1, recovery_nodes=30, in_flight=1000, flows_max=1000, recovery_flows_max=64
        ),
        make_arm("freeze", disturbances=fault("freeze", _EARLY, _MIDDLE, _LATE)),
        *(outlast("freeze", "freeze", ttl_s) for ttl_s in (5.0, 30.0)),
        *(outlast("partition", "cut", ttl_s) for ttl_s in (5.0, 30.0)),
        make_arm("freeze-recovery", disturbances=fault("freeze", _EARLY, _MIDDLE, _LATE, role="recovery")),
        make_arm("starved", disturbances=fault("starve", _EARLY, _MIDDLE, hold_s=STARVED_S)),
        make_arm("blocked", disturbances=fault("block", _EARLY, _MIDDLE, hold_s=STARVED_S)),
        make_arm("partition", disturbances=fault("cut", _EARLY, _MIDDLE, _LATE)),
        make_arm("partition-one-way", disturbances=fault("deafen", _EARLY, _MIDDLE, _LATE)),
        make_arm("late-delivery", disturbances=fault("delay", _EARLY, _MIDDLE, _LATE)),
        make_arm("lost-answers", kills=1, lost_answers=(LostAnswers("commit_rows", 5), LostAnswers("claim", 5))),
        make_arm("backends-ended", disturbances=fault("end-backends", _EARLY, 0.15, _MIDDLE, 0.45, _LATE, hold_s=0.0)),
        make_arm("server-crash", disturbances=fault("crash", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        make_arm("server-away", disturbances=fault("crash", _EARLY, _MIDDLE, hold_s=LONG_S)),
        make_arm("server-restart", disturbances=fault("restart", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        make_arm("server-freeze", disturbances=fault("freeze-server", _EARLY, _MIDDLE, _LATE)),
        make_arm("read-only", disturbances=fault("read-only", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        make_arm("impatient", disturbances=fault("impatient", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        make_arm("no-connections", kills=4, disturbances=fault("take-connections", _EARLY, _MIDDLE, hold_s=SHORT_S)),
        make_arm("old-snapshot", kills=4, disturbances=fault("hold-snapshot", _EARLY, hold_s=LONG_S)),
        make_arm("terminate", disturbances=fault("terminate", _EARLY, _MIDDLE, _LATE, hold_s=0.0)),
    ),
)
