"""The arms of B7 as data."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ninelives_bench.committer_load import ClosedLoop, OpenLoop
from ninelives_bench.pacer import fixed, poisson
from ninelives_bench.suite import B7Plan, Plan

CLOSED_LOOP_PER_S_MAX = 100_000
"""More than any arm reaches: how many instances a closed loop is given."""
_FILL = 0.8
"""Of the greatest depth, on the average over the instances of an arm."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the ladder; without a rate it is a saturation."""

    name: str
    arrivals: str
    rate_per_s: int | None
    seconds: float
    nodes: int = 1
    transport: str = "socket"
    in_flight: int = 0
    checkpoints: bool = False

    def population(self, b7: B7Plan) -> int:
        """How many instances it needs, so that none gets too deep; a multiple of the nodes."""
        rate = CLOSED_LOOP_PER_S_MAX if self.rate_per_s is None else self.rate_per_s
        commits = rate * (self.seconds + b7.warmup_s)
        count = max(b7.population, ceil(commits / (_FILL * b7.depth_max)))
        return count - count % self.nodes

    def load(self, b7: B7Plan, seconds: float, seed: int) -> OpenLoop | ClosedLoop:
        """What one of its nodes does in a phase of so many seconds."""
        if self.rate_per_s is None:
            return ClosedLoop(self.in_flight // self.nodes, seconds)
        rate = self.rate_per_s / self.nodes
        return OpenLoop(poisson(rate, seconds, seed) if self.arrivals == "poisson" else fixed(rate, seconds), seconds)


def b7_arms(plan: Plan) -> list[Arm]:
    """The open-loop arms, in the order in which they run."""
    b7 = plan.b7
    return [
        *(Arm(f"poisson-{rate}", "poisson", rate, b7.arm_s) for rate in b7.poisson_per_s),
        *(Arm(f"fixed-{rate}", "fixed", rate, b7.arm_s) for rate in b7.fixed_per_s),
        *(Arm(f"tcp-{rate}", "poisson", rate, b7.arm_s, transport="tcp") for rate in b7.tcp_per_s),
        *(Arm(f"two-nodes-{rate}", "poisson", rate, b7.arm_s, nodes=2) for rate in b7.two_nodes_per_s),
        *(
            Arm(f"checkpoints-{rate}", "poisson", rate, b7.checkpointed_s, checkpoints=True)
            for rate in b7.checkpointed_per_s
        ),
    ]


def saturations(plan: Plan) -> list[Arm]:
    """The closed-loop arms: the short one first."""
    b7 = plan.b7
    lengths = [b7.saturation_s, *([] if b7.saturation_long_s is None else [b7.saturation_long_s])]
    return [Arm(f"saturation-{s:.0f}s", "closed", None, s, in_flight=b7.saturation_in_flight) for s in lengths]
