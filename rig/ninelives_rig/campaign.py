"""What a campaign declares: arms, each with a workload, a topology and the kills to deliver. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ninelives_rig.engines.base import LostAnswers, Workload
from ninelives_rig.evidence.spec import FAULT_EVENTS
from ninelives_rig.refusal import Refused

FLOWS_MAX = 1 << 24
"""An instance's id has room for an index below this."""
_OF_LINES = frozenset({"cut", "deafen", "delay"})
# Those that change settings or take every connection are not done to a server that others may use.
_OF_OWN_SERVER = frozenset({"crash", "restart", "freeze-server", "read-only", "impatient", "take-connections"})


@dataclass(frozen=True)
class KillPlan:
    """One kind of kill of an arm.

    ``position`` is an engine-neutral position or a boundary's name. ``steps`` are the step ids that it may
    hit (empty: each step that the position allows). ``share`` weighs it against the arm's other plans.
    ``token_min`` 2 hits only after a takeover. ``after`` names a position at which the same instance is
    killed first, so that a takeover is certain to happen. ``any_instance`` is for boundaries that belong to
    no instance, or to none that can be chosen.
    """

    position: str
    steps: tuple[int, ...] = ()
    share: float = 1.0
    token_min: int = 0
    role: str | None = None
    after: str | None = None
    any_instance: bool = False
    start_kind: str | None = None


@dataclass(frozen=True)
class Disturbance:
    """A fault that the coordinator inflicts when a share of the flows is done and so many rows are committed.

    ``action`` is one of ``ninelives_rig.evidence.spec.FAULT_EVENTS``. What lasts does so for ``hold_s`` seconds. Faults
    of nodes hit those of the ``role``, by turns.
    """

    action: str
    at_done: float = 0.0
    role: str = "worker"
    hold_s: float = 0.0
    at_rows: int = 0

    def __post_init__(self) -> None:
        if self.action not in FAULT_EVENTS or not 0 <= self.at_done < 1 or self.hold_s < 0:
            known = ", ".join(FAULT_EVENTS)
            raise Refused(
                f"disturbance {self.action!r} at {self.at_done} for {self.hold_s} s: one of {known}, at 0 to below 1"
            )


@dataclass(frozen=True)
class Operations:
    """What the coordinator does to instances as a client while they run.

    ``signals_at`` is ``held``: the signal of every wait is sent as soon as the effect of the instance's first step
    is seen, so while a node holds it; or ``start``: all signals are sent at once, before or while their
    instances are started. Each is sent ``copies`` times under one id, as by a client that saw no answer.
    A share of the instances is paused when that first effect is seen, and resumed after ``pause_s`` seconds.
    """

    signals_at: str = "held"
    copies: int = 1
    pause_share: float = 0.0
    pause_s: float = 1.0

    def __post_init__(self) -> None:
        if self.signals_at not in ("held", "start") or not 0 <= self.pause_share <= 1 or self.copies < 1:
            raise Refused("operations: signals_at is held or start, pause_share from 0 to 1, copies 1 or more")


@dataclass(frozen=True)
class Arm:
    """One variant of a campaign, run and judged by itself. Counts are per arm; durations in seconds.

    A worker keeps ``in_flight`` flows of its own starts under way. A node holds at most ``flows_max`` flows (a recovery
    node ``recovery_flows_max`` where that is given), and
    ``takeovers_max`` more when it takes over from a dead node; 1 and 0 make each process run one flow at a time.
    Flows are started in ``version``; recovery nodes carry ``recovery_version`` alone where it is another one.
    """

    name: str
    workload: Workload
    position: str
    kill_plans: tuple[KillPlan, ...]
    flows: int
    kills: int
    effect: str = "idempotent"
    workers: int = 3
    recovery_nodes: int = 2
    in_flight: int = 32
    flows_max: int = 64
    recovery_flows_max: int | None = None
    takeovers_max: int = 2048
    coordinator_share: float = 0.5
    ttl_s: float = 30.0
    drain_s: float = 20.0
    converge_timeout_s: float = 600.0
    disturbances: tuple[Disturbance, ...] = ()
    operations: Operations | None = None
    lost_answers: tuple[LostAnswers, ...] = ()
    version: str = "1.0.0"
    recovery_version: str | None = None
    expect_per_kill: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.workers + self.recovery_nodes < 1 or self.in_flight < 1 or self.flows_max < 1:
            raise Refused(f"arm {self.name!r} needs a node, and at least one flow in flight")
        if self.workers == 0 and self.coordinator_share < 1:
            raise Refused(f"arm {self.name!r} has no workers, so the coordinator must start every flow")
        if not 0 <= self.kills <= self.flows:
            raise Refused(
                f"arm {self.name!r}: {self.kills} kills need as many flows, and there are {self.flows}; "
                "ask for more flows or fewer kills"
            )

    @property
    def features(self) -> frozenset[str]:
        """What this arm asks of its engine beyond kills."""
        asked = {
            "signals": self.operations is not None or bool(self.workload.waits),
            "bury": any(one.action == "bury" for one in self.disturbances),
            "lost_answers": bool(self.lost_answers),
            "versions": self.recovery_version is not None,
        }
        return frozenset(name for name, wanted in asked.items() if wanted)

    @property
    def lines(self) -> bool:
        """Whether its nodes reach the server through lines that can be cut."""
        return any(one.action in _OF_LINES for one in self.disturbances)

    @property
    def own_server(self) -> bool:
        """Whether it needs a server whose processes are the run's own."""
        return any(one.action in _OF_OWN_SERVER for one in self.disturbances)

    @property
    def expect(self) -> dict[str, int]:
        """The exact counts that this arm promises, or nothing."""
        if not self.expect_per_kill:
            return {}
        return {"kills": self.kills, **{name: n * self.kills for name, n in self.expect_per_kill.items()}}

    def scaled(self, flows: int | None, kills: int | None) -> Arm:
        """Return this arm with another number of flows or kills; as many disturbances as kills, if it has any.

        Kills that are not given follow the flows. An arm whose faults are all of another kind gets no kills.
        """
        flows = self.flows if flows is None else flows
        if not self.kills and kills is not None:
            return replace(self, flows=flows, disturbances=self._spaced(kills))
        kills = self._kills_for(flows) if kills is None else kills
        disturbances = self._spaced(kills) if kills != self.kills else self.disturbances
        return replace(self, flows=flows, kills=kills, disturbances=disturbances)

    def _spaced(self, count: int) -> tuple[Disturbance, ...]:
        """Return so many of the arm's disturbances, at even distances over the first four fifths of its flows."""
        if not self.disturbances:
            return ()
        spaced = (0.8 * (turn + 1) / (count + 1) for turn in range(count))
        return tuple(replace(self.disturbances[0], at_done=at_done) for at_done in spaced)

    def _kills_for(self, flows: int) -> int:
        """In proportion to the flows, but each plan once while there are flows for it."""
        each_once = sum(2 if plan.after else 1 for plan in self.kill_plans)
        in_proportion = round(self.kills * flows / self.flows)
        return min(max(in_proportion, min(each_once, self.kills)), flows)


@dataclass(frozen=True)
class Campaign:
    """A named set of arms."""

    name: str
    summary: str
    arms: tuple[Arm, ...]

    def scaled(self, flows: int | None, kills: int | None) -> Campaign:
        """Return this campaign with another number of flows or kills in each arm."""
        return replace(self, arms=tuple(arm.scaled(flows, kills) for arm in self.arms))
