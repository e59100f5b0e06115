"""Schedules: found once each, the same every time, and without loss by leaving out those that commute."""

from __future__ import annotations

import pytest

from ninelives_rig.explore.schedule import explore, run
from ninelives_rig.explore.states import parse_case
from ninelives_rig.explore.world import World

pytestmark = pytest.mark.postgres


def test_schedules_are_the_same_twice(explored: World) -> None:
    case = parse_case("park+signal@held")
    first, second = ([outcome.moves for outcome in explore(explored, case)] for _ in range(2))
    assert first == second
    assert len(first) == len({tuple(moves) for moves in first}) > 3


def test_a_schedule_is_run_again_by_its_letters(explored: World) -> None:
    for outcome in explore(explored, parse_case("commit+claim@dead")):
        again = run(explored, outcome.case, outcome.letters)
        assert (again.moves, again.answers) == (outcome.moves, outcome.answers)


@pytest.mark.parametrize(
    "text", ["claim+signal@parked", "commit+claim@dead", "start+signal@unborn", "claim+resume@paused-due"]
)
def test_leaving_out_what_commutes_loses_no_outcome(explored: World, text: str) -> None:
    case = parse_case(text)
    every = [sorted(outcome.answers) for outcome in explore(explored, case, all_orders=True)]
    few = [sorted(outcome.answers) for outcome in explore(explored, case)]
    assert len(few) < len(every)
    assert {tuple(answers) for answers in few} == {tuple(answers) for answers in every}


def test_who_waits_is_seen_and_goes_on_when_the_lock_is_free(explored: World) -> None:
    outcome = run(explored, parse_case("park+signal@held"), "AB")
    assert [(move.letter, move.sent, move.waited) for move in outcome.moves[:2]] == [
        ("A", "park_lock_wakes", False),
        ("B", "signal", True),
    ]
    assert outcome.answers == ("A: park parked", "B: signal accepted")
    assert outcome.violations == []
