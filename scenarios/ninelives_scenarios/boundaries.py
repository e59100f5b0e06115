"""A kill at every boundary that the runtime names, in the situations that reach it."""

from ninelives_rig.campaign import Arm, Campaign, Disturbance, KillPlan
from ninelives_rig.engines.base import StepSpec, Workload

SERVICE_S = 0.03

_STEPLESS = (0,)


def _workload(effect: str, service_s: float = SERVICE_S, failures: int = 0) -> Workload:
    steps = tuple(StepSpec(name, effect, service_s) for name in ("one", "three"))
    middle = StepSpec("two", effect, service_s, failures=failures, retry_delay_s=1.2)
    return Workload(f"rig.sweep_{effect}", (steps[0], middle, steps[1]))


def _sweep(effect: str, *step_boundaries: str) -> Arm:
    """Every boundary of an ordinary run, by turns over the steps.

    One flow at a time in each process: an acknowledgement whose node dies of another kill just before it is read is
    never seen by anybody, and the kill that waits there would not happen.
    """
    plans = (
        KillPlan("start.committed", steps=_STEPLESS, start_kind="worker"),
        KillPlan("claim.committed", steps=_STEPLESS, start_kind="coordinator"),
        *(KillPlan(boundary) for boundary in ("body.entered", "body.returned", *step_boundaries)),
        KillPlan("finish.committed", steps=_STEPLESS),
    )
    return Arm(
        name=f"{effect}.sweep",
        workload=_workload(effect),
        effect=effect,
        position="sweep",
        kill_plans=plans,
        flows=120,
        kills=6 * len(plans),
        workers=1,
        recovery_nodes=1,
        in_flight=1,
        flows_max=1,
        takeovers_max=0,
    )


_TAKEOVER = Arm(
    name="takeover",
    workload=_workload("idempotent"),
    position="takeover",
    kill_plans=(
        KillPlan("claim.committed", steps=_STEPLESS, token_min=2, after="before-commit"),
        KillPlan("body.entered", token_min=2, after="before-commit"),
        KillPlan("before-commit", token_min=2, after="before-commit"),
        KillPlan("after-commit", token_min=2, after="before-commit"),
    ),
    flows=400,
    kills=24,
    in_flight=4,
    flows_max=6,
)

_RECOVERY = Arm(
    name="recovery",
    workload=_workload("idempotent"),
    position="recovery",
    kill_plans=(KillPlan("before-commit"), KillPlan("after-commit"), KillPlan("claim.committed", steps=_STEPLESS)),
    flows=400,
    kills=18,
    workers=0,
    recovery_nodes=2,
    flows_max=6,
    coordinator_share=1.0,
)

_PARK = Arm(
    name="park",
    workload=_workload("idempotent", failures=1),
    position="park.committed",
    kill_plans=(KillPlan("park.committed", steps=_STEPLESS),),
    flows=60,
    kills=8,
    workers=0,
    recovery_nodes=2,
    coordinator_share=1.0,
    flows_max=1,
    takeovers_max=0,
)

_SESSION = Arm(
    name="session",
    workload=_workload("idempotent"),
    position="session",
    kill_plans=(
        KillPlan("session.opened", steps=_STEPLESS, any_instance=True),
        KillPlan("session.declared_dead", steps=_STEPLESS, any_instance=True),
        # Those kill nodes that hold nothing yet, so others die holding flows.
        KillPlan("before-commit"),
    ),
    flows=400,
    kills=9,
)

_RELEASE = Arm(
    name="release",
    # Many short steps: the flows of a node go in step, and one that is asked to leave in their last gives nothing back.
    workload=Workload("rig.sweep_release", tuple(StepSpec(f"s{n}", "idempotent", 0.1) for n in range(1, 10))),
    position="release.committed",
    kill_plans=(KillPlan("release.committed", steps=_STEPLESS, any_instance=True),),
    flows=400,
    kills=4,
    drain_s=5.0,
    # More than kills, for the same reason; by rows, which grow steadily where whole flows end in waves.
    disturbances=tuple(Disturbance("terminate", at_rows=rows) for rows in (300, 700, 1100, 1500, 1900, 2300)),
)

_LEASE_LOST = Arm(
    name="lease-lost",
    workload=_workload("idempotent", service_s=0.3),
    position="lease.lost",
    # A node that has lost its leases leaves nothing behind to recover, so others die holding theirs.
    kill_plans=(KillPlan("lease.lost", steps=_STEPLESS, any_instance=True), KillPlan("before-commit")),
    flows=600,
    kills=4,
    ttl_s=2.0,
    # One more than needed: a node that is frozen between two flows has no lease to lose.
    disturbances=tuple(Disturbance("freeze", at_rows=rows, hold_s=4.0) for rows in (100, 500, 900)),
)

CAMPAIGN = Campaign(
    name="boundaries",
    summary="a kill at every boundary the runtime names: start, claim, takeover, recovery nodes, release, zombies",
    arms=(
        _sweep("idempotent", "journal.prepared", "journal.committed"),
        _sweep("at_most_once", "intent.committed", "journal.prepared", "journal.committed"),
        _sweep("transactional", "transaction.prepared", "journal.committed"),
        _TAKEOVER,
        _RECOVERY,
        _PARK,
        _SESSION,
        _RELEASE,
        _LEASE_LOST,
    ),
)
