"""The failure catalogue, one arm for each fault: nodes killed, frozen and cut off, the server crashed and starved."""

from ninelives_rig.campaign import Arm, Campaign, Disturbance, KillPlan
from ninelives_rig.engines.base import LostAnswers, StepSpec, Workload

FLOWS = 1000
TTL_S = 2.0
SERVICE_S = 0.05
# Beyond the TTL, so that whoever it hits is a zombie when it comes back.
LONG_S = 2.5 * TTL_S
# Below a TTL: nobody has to lose a lease.
SHORT_S = 0.5 * TTL_S

WORKLOAD = Workload("rig.faults", tuple(StepSpec(name, "idempotent", SERVICE_S) for name in ("one", "two", "three")))


def _arm(name: str, *, kills: int = 0, plans: tuple[KillPlan, ...] = (), **changes: object) -> Arm:
    """Make an arm; what is not said is the same in all of them, so that their figures can be compared."""
    settings: dict[str, object] = {
        "workers": 3,
        "recovery_nodes": 2,
        "in_flight": 8,
        "flows_max": 16,
        "ttl_s": TTL_S,
        "converge_timeout_s": 120.0,
    }
    return Arm(
        name=name,
        workload=WORKLOAD,
        position="before-commit",
        kill_plans=plans or (KillPlan("before-commit"),),
        flows=FLOWS,
        kills=kills,
        **{**settings, **changes},  # type: ignore[arg-type]  # the fields of an arm, by name
    )


def fault(action: str, *at_done: float, hold_s: float = LONG_S, role: str = "worker") -> tuple[Disturbance, ...]:
    """Return one fault of this kind for each share of the flows."""
    return tuple(Disturbance(action, share, role, hold_s) for share in at_done)


_EARLY, _MIDDLE, _LATE = 0.05, 0.3, 0.55

CAMPAIGN = Campaign(
    name="faults",
    summary="one arm for each fault: kill, freeze, partitions, lost answers, a server that crashes, freezes, starves",
    arms=(
        _arm("kill", kills=12),
        _arm(
            "kill-recovery",
            kills=12,
            plans=(
                KillPlan("claim.committed", steps=(0,), token_min=2, after="before-commit"),
                KillPlan("before-commit", token_min=2, after="before-commit"),
                KillPlan("after-commit", token_min=2, after="before-commit"),
            ),
        ),
        _arm("freeze", disturbances=fault("freeze", _EARLY, _MIDDLE, _LATE)),
        _arm("freeze-recovery", disturbances=fault("freeze", _EARLY, _MIDDLE, _LATE, role="recovery")),
        _arm("partition", disturbances=fault("cut", _EARLY, _MIDDLE, _LATE)),
        _arm("partition-one-way", disturbances=fault("deafen", _EARLY, _MIDDLE, _LATE)),
        _arm("late-delivery", disturbances=fault("delay", _EARLY, _MIDDLE, _LATE)),
        _arm("lost-answers", kills=1, lost_answers=(LostAnswers("commit_rows", 5), LostAnswers("claim", 5))),
        _arm("backends-ended", disturbances=fault("end-backends", _EARLY, 0.15, _MIDDLE, 0.45, _LATE, hold_s=0.0)),
        _arm("server-crash", disturbances=fault("crash", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        _arm("server-away", disturbances=fault("crash", _EARLY, _MIDDLE, hold_s=LONG_S)),
        _arm("server-restart", disturbances=fault("restart", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        _arm("server-freeze", disturbances=fault("freeze-server", _EARLY, _MIDDLE, _LATE)),
        _arm("read-only", disturbances=fault("read-only", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        _arm("impatient", disturbances=fault("impatient", _EARLY, _MIDDLE, _LATE, hold_s=SHORT_S)),
        _arm("no-connections", kills=4, disturbances=fault("take-connections", _EARLY, _MIDDLE, hold_s=SHORT_S)),
        _arm("old-snapshot", kills=4, disturbances=fault("hold-snapshot", _EARLY, hold_s=LONG_S)),
        _arm("terminate", disturbances=fault("terminate", _EARLY, _MIDDLE, _LATE, hold_s=0.0)),
    ),
)
