"""The small arms in which mutants are planted: each a few seconds long, and passed by the runtime as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ninelives_rig.campaign import Arm, Disturbance, KillPlan, Operations
from ninelives_rig.engines.base import LostAnswers, StepSpec, Workload

# A buried node learns of it at its next heartbeat, a third of this. Until then it goes on as a zombie.
_BURIAL_TTL_S = 12.0
# Whoever first reaches it dies, before anything else happens, so that no later mischief is healed by a death.
_EARLY_KILL = (KillPlan("before-commit", steps=(1,), any_instance=True),)


@dataclass(frozen=True)
class Scenario:
    """An arm, and the slowness that is planted in its nodes with and without a mutant."""

    arm: Arm
    slowness: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.arm.name


def _workload(name: str, effect: str = "idempotent", service_s: float = 0.05, steps: int = 3) -> Workload:
    names = ("one", "two", "three", "four", "five", "six")[:steps]
    return Workload(f"sabotage.{name}", tuple(StepSpec(step, effect, service_s) for step in names))


def _arm(name: str, **changes: object) -> Arm:
    """Make an arm; what is not said is small and ordinary, with two kills so that there is something to recover."""
    base = Arm(
        name=name,
        workload=_workload(name),
        position="before-commit",
        kill_plans=(KillPlan("before-commit", steps=(1,)),),
        flows=24,
        kills=2,
        workers=2,
        recovery_nodes=1,
        in_flight=4,
        flows_max=8,
        ttl_s=2.0,
        drain_s=2.0,
        converge_timeout_s=60.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # the fields of an arm, by name


def _one_by_one(name: str, effect: str, position: str, **changes: object) -> Arm:
    """One flow at a time in the whole arm, so that each kill has its own consequence and none is missed."""
    return _arm(
        name,
        workload=_workload(name, effect, 0.02),
        effect=effect,
        position=position,
        kill_plans=(KillPlan(position),),
        kills=4,
        workers=1,
        in_flight=1,
        flows_max=1,
        takeovers_max=0,
        coordinator_share=0.0,
        **changes,
    )


def _burial(name: str, effect: str = "idempotent", workload: Workload | None = None) -> Arm:
    """Workers are declared dead while they live, four times, each time with flows of over a second in their hands."""
    workload = workload or _workload(name, effect, 0.25, steps=6)
    rows = 72 * len(workload.steps)
    return _arm(
        name,
        workload=workload,
        effect=effect,
        kill_plans=_EARLY_KILL,
        flows=72,
        kills=1,
        in_flight=6,
        flows_max=12,
        coordinator_share=0.25,
        ttl_s=_BURIAL_TTL_S,
        disturbances=tuple(Disturbance("bury", at_rows=rows * twentieths // 20) for twentieths in (1, 4, 8, 12)),
    )


_PROBED = Workload(
    "sabotage.probed", tuple(StepSpec(name, "at_most_once", 0.1, lead_s=0.6) for name in ("one", "two", "three"))
)
_WAIT = Workload(
    "sabotage.wait", (StepSpec("one", service_s=0.4), StepSpec("go", kind="signal"), StepSpec("three", service_s=0.05))
)
_PATIENT = Workload(
    "sabotage.patient", (StepSpec("one"), StepSpec("two", failures=1, retry_delay_s=1.2), StepSpec("three"))
)
_SLOW_RETRY = Workload(
    "sabotage.slow_retry", (StepSpec("one"), StepSpec("two", lead_s=5.5, failures=1, retry_delay_s=1.3))
)
# Behind the early kill, so that nobody who is buried can die of it before its next heartbeat.
_ONE_BURIAL = (Disturbance("bury", at_rows=16),)
_LOSSY = {"kill_plans": _EARLY_KILL, "kills": 1}
_CLAIMED = {"workers": 0, "recovery_nodes": 2, "coordinator_share": 1.0}

SCENARIOS: tuple[Scenario, ...] = (
    # Who dies in its second step leaves a committed one behind, which a takeover could forget.
    Scenario(_arm("kills", flows=40, kills=4, kill_plans=(KillPlan("before-commit", steps=(2,)),))),
    Scenario(_one_by_one("acknowledgements", "idempotent", "journal.committed")),
    Scenario(
        _one_by_one(
            "intents", "at_most_once", "before-commit", expect_per_kill={"duplicates_against": 0, "in_doubt": 1}
        )
    ),
    Scenario(
        _arm(
            "starts",
            position="start.committed",
            kill_plans=(KillPlan("start.committed", steps=(0,), start_kind="worker"), KillPlan("before-commit")),
            kills=6,
            coordinator_share=0.3,
        )
    ),
    Scenario(_burial("burials")),
    Scenario(
        _arm("heartbeats", workload=_workload("heartbeats", "idempotent", 0.4), disturbances=_ONE_BURIAL, **_LOSSY)
    ),
    Scenario(_arm("freezes", disturbances=(Disturbance("freeze", at_rows=16, hold_s=1.0),), **_LOSSY)),
    Scenario(_arm("partitions", disturbances=(Disturbance("cut", at_rows=16, hold_s=1.0),), **_LOSSY)),
    Scenario(_burial("burials-slow-claim"), ("slow-claim",)),
    Scenario(replace(_burial("burials-in-part"), in_flight=12), ("few-takeovers", "slow-lane")),
    Scenario(_burial("burials-in-doubt", "at_most_once", _PROBED)),
    Scenario(_burial("burials-in-transaction", "transactional")),
    Scenario(_arm("rests", workload=_PATIENT)),
    Scenario(
        _arm(
            "stale-rests",
            workload=_SLOW_RETRY,
            kill_plans=(KillPlan("before-commit", steps=(2,)),),
            flows=16,
            kills=1,
            workers=3,
            recovery_nodes=0,
            coordinator_share=1.0,
            flows_max=6,
            ttl_s=_BURIAL_TTL_S,
            # One of two surely holds flows: a node takes six, and there are sixteen for three.
            disturbances=(Disturbance("bury", at_rows=20), Disturbance("bury", at_rows=20)),
        ),
        ("slow-park", "slow-claim"),
    ),
    # Every second one, because flows go in step: every third would always be the commit that ends them.
    Scenario(_arm("lost-commits", lost_answers=(LostAnswers("commit_rows", 2),), **_LOSSY)),
    Scenario(_arm("unsent-commits", lost_answers=(LostAnswers("commit_rows", 2, "unsent"),), **_LOSSY)),
    Scenario(_arm("lost-claims", lost_answers=(LostAnswers("claim", 3),), **_LOSSY, **_CLAIMED)),
    Scenario(_arm("lost-starts", lost_answers=(LostAnswers("start_held", 2),), coordinator_share=0.0, **_LOSSY)),
    Scenario(_arm("signals", workload=_WAIT, kills=1, operations=Operations(), **_CLAIMED)),
    Scenario(_arm("repeated-signals", workload=_WAIT, kills=1, operations=Operations(copies=2), **_CLAIMED)),
    Scenario(
        _arm(
            "early-signals",
            workload=_WAIT,
            kills=1,
            operations=Operations("start"),
            in_flight=24,
            flows_max=24,
            coordinator_share=0.0,
        ),
        ("early-signal-in-between",),
    ),
    Scenario(
        _arm(
            "pauses",
            workload=_workload("pauses", "idempotent", 0.4),
            kills=1,
            operations=Operations(pause_share=0.5, pause_s=1.6),
        )
    ),
    # Workers leave most of the flows lying, in front of a node that does not carry them.
    Scenario(
        _arm(
            "versions",
            workload=_workload("versions", "idempotent", 0.2),
            recovery_version="2.0.0",
            coordinator_share=1.0,
            flows_max=4,
        )
    ),
)


def scenario(name: str) -> Scenario:
    """Return the scenario of this name."""
    return next(one for one in SCENARIOS if one.name == name)
