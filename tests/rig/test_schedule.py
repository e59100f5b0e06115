"""What a seed decides: ids, who starts them, and the kill schedule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives_rig.campaign import Arm, Disturbance, KillPlan
from ninelives_rig.commands import campaigns
from ninelives_rig.engines.base import StepSpec, Workload
from ninelives_rig.engines.naive import ENGINE as NAIVE
from ninelives_rig.engines.reference import ENGINE as REFERENCE
from ninelives_rig.refusal import Refused
from ninelives_rig.schedule import COORDINATOR, WORKER, Kill, draw_instances, draw_kills

HAS = REFERENCE.capabilities
THREE = Workload("three", tuple(StepSpec(name) for name in ("one", "two", "three")))


def arm(**changes: object) -> Arm:
    """Return an arm of 1 000 flows and 100 kills, changed as asked."""
    base = Arm("an-arm", THREE, "before-commit", (KillPlan("before-commit"),), flows=1000, kills=100)
    return replace(base, **changes)  # type: ignore[arg-type]  # fields by name


def drawn(one: Arm, seed: int = 7) -> list[Kill]:
    """Draw the kills of an arm."""
    return draw_kills(one, HAS, seed, draw_instances(one, seed))


def test_same_seed_gives_the_same_schedule(seed: int) -> None:
    assert draw_instances(arm(), seed) == draw_instances(arm(), seed)
    assert drawn(arm(), seed) == drawn(arm(), seed)


def test_another_seed_or_arm_gives_other_ids_and_another_schedule() -> None:
    ids = [{one.instance_id for one in draw_instances(a, s)} for a, s in ((arm(), 1), (arm(), 2), (arm(name="b"), 1))]
    assert not ids[0] & ids[1]
    assert not ids[0] & ids[2]
    assert [kill.step_id for kill in drawn(arm(), 1)] != [] != drawn(arm(), 2)
    assert drawn(arm(), 1) != drawn(arm(), 2)


def test_ids_are_distinct_versioned_and_rise_with_the_index() -> None:
    ids = [one.instance_id for one in draw_instances(arm(), 7)]
    assert ids == sorted(set(ids))
    assert {one.version for one in ids} == {7}


@given(share=st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.9, 1.0]), flows=st.integers(1, 300))
def test_the_coordinator_starts_its_share_all_along_the_list(share: float, flows: int) -> None:
    instances = draw_instances(arm(flows=flows, kills=0, coordinator_share=share), 1)
    for end in range(1, flows + 1):
        by_coordinator = sum(one.started_by == COORDINATOR for one in instances[:end])
        assert abs(by_coordinator - share * end) < 1 + 1e-6


def test_kills_are_spread_over_the_run_the_start_kinds_and_the_steps() -> None:
    one = arm()
    index_of = {instance.instance_id: instance for instance in draw_instances(one, 7)}
    kills = drawn(one)
    targets = [index_of[kill.instance_id] for kill in kills if kill.instance_id is not None]
    assert len({target.index for target in targets}) == len(kills) == 100
    # One target in each hundredth of the list: no two kills wait for the same moment, and none is far from the next.
    assert [target.index // 10 for target in targets] == list(range(100))
    assert Counter(target.started_by for target in targets) == {COORDINATOR: 50, WORKER: 50}
    assert set(Counter(kill.step_id for kill in kills).values()) <= {32, 34}
    per_kind = Counter((target.started_by, kill.step_id) for target, kill in zip(targets, kills, strict=True))
    assert min(per_kind[kind, step] for kind in (COORDINATOR, WORKER) for step in (1, 2, 3)) >= 10


def test_each_plan_of_several_hits_both_start_kinds_and_every_step() -> None:
    plans = (KillPlan("body.entered"), KillPlan("body.returned"))
    one = arm(kill_plans=plans, kills=48)
    kinds = {instance.instance_id: instance.started_by for instance in draw_instances(one, 7)}
    seen = Counter((kill.boundary, kill.step_id, kinds[kill.instance_id]) for kill in drawn(one) if kill.instance_id)
    assert len(seen) == 2 * 3 * 2 and set(seen.values()) == {4}


def test_after_commit_never_targets_the_last_step_and_lies_where_the_engine_says() -> None:
    kills = drawn(arm(position="after-commit", kill_plans=(KillPlan("after-commit"),)))
    # For an idempotent step it is the entry of the next body, so steps 1 and 2 show as 2 and 3.
    assert {(kill.boundary, kill.step_id) for kill in kills} == {("body.entered", 2), ("body.entered", 3)}
    once = Workload("once", tuple(StepSpec(name, "at_most_once") for name in ("one", "two", "three")))
    changed = arm(workload=once, effect="at_most_once", kill_plans=(KillPlan("after-commit"),))
    assert {(kill.boundary, kill.step_id) for kill in drawn(changed)} == {
        ("journal.committed", 1),
        ("journal.committed", 2),
    }


def test_plans_share_an_arm_by_their_shares() -> None:
    plans = (KillPlan("body.entered", share=3.0), KillPlan("body.returned"))
    counts = Counter(kill.boundary for kill in drawn(arm(kill_plans=plans)))
    assert counts == {"body.entered": 75, "body.returned": 25}


def test_a_chained_plan_kills_the_same_instance_twice() -> None:
    plans = (KillPlan("claim.committed", steps=(0,), token_min=2, after="before-commit"),)
    kills = drawn(arm(kill_plans=plans, kills=10))
    assert len(kills) == 10
    for first, second in zip(kills[::2], kills[1::2], strict=True):
        assert first.instance_id == second.instance_id
        assert (first.boundary, first.token_min) == ("body.returned", 0)
        assert (second.boundary, second.token_min, second.step_id) == ("claim.committed", 2, 0)


def test_a_plan_for_any_instance_names_none() -> None:
    kills = drawn(arm(kill_plans=(KillPlan("session.opened", steps=(0,), any_instance=True),), kills=3))
    assert [(kill.instance_id, kill.step_id) for kill in kills] == [(None, 0)] * 3


def test_what_cannot_be_scheduled_is_refused() -> None:
    with pytest.raises(Refused, match="more flows or fewer kills"):
        arm(flows=5, kills=6)
    with pytest.raises(Refused, match="plans none"):
        drawn(arm(kill_plans=()))
    with pytest.raises(Refused, match=r"no position 'journal\.committed'"):
        NAIVE.capabilities.position("journal.committed", "idempotent")


def test_scaling_keeps_one_disturbance_a_kill() -> None:
    one = arm(kills=2, disturbances=(Disturbance("terminate", 0.3), Disturbance("terminate", 0.6)))
    scaled = one.scaled(flows=50, kills=5)
    assert (scaled.flows, scaled.kills, len(scaled.disturbances)) == (50, 5, 5)
    assert all(0 < disturbance.at_done < 0.8 for disturbance in scaled.disturbances)
    assert arm(expect_per_kill={"in_doubt": 1}).scaled(None, 7).expect == {"kills": 7, "in_doubt": 7}


@pytest.mark.parametrize(
    ("flows", "kills"), [(1, 1), (50, 1), (149, 1), (150, 2), (500, 5), (10_000, 100), (20_000, 200)]
)
def test_kills_that_are_not_given_follow_the_flows(flows: int, kills: int) -> None:
    one = arm(flows=10_000, kills=100)
    assert one.scaled(flows, None).kills == kills
    assert arm(flows=10_000, kills=0).scaled(flows, None).kills == 0


def test_fewer_flows_keep_one_kill_of_each_plan() -> None:
    plans = (KillPlan("before-commit"), KillPlan("after-commit"), KillPlan("body.entered", after="before-commit"))
    one = arm(flows=400, kills=24, kill_plans=plans)
    assert [one.scaled(flows, None).kills for flows in (2, 4, 10, 100, 400)] == [2, 4, 4, 6, 24]
    assert one.scaled(None, None) == one


def test_every_campaign_can_be_scaled_to_any_number_of_flows() -> None:
    for campaign in campaigns().values():
        assert campaign.scaled(None, None) == campaign
        for flows in (1, 2, 7, 50, 100_000):
            for one in campaign.scaled(flows, None).arms:
                assert one.flows == flows and 0 <= one.kills <= flows
                assert all(0 <= disturbance.at_done < 1 for disturbance in one.disturbances)
