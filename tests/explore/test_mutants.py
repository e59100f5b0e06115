"""Every race mutant is found by exploring its case, and by nothing that the store as it is would do."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import islice

import pytest

from ninelives_rig.cluster.server import PostgresServer
from ninelives_rig.explore.mutants import RACE_MUTANTS, RaceMutant
from ninelives_rig.explore.schedule import explore, run
from ninelives_rig.explore.states import parse_case
from ninelives_rig.explore.tasks import CaseTold, Place, Task, run_tasks, shows, split
from ninelives_rig.explore.world import World
from ninelives_rig.sabotage.planting import Plot

pytestmark = pytest.mark.postgres

_SCHEDULES_MAX = 200
"""Of each case; `make explore` runs them all."""


@pytest.fixture(scope="module")
def told(postgres_server: PostgresServer) -> Mapping[str, list[CaseTold]]:
    """What the exploration of each mutant told, by name."""
    place = Place(postgres_server.dsn, "explore_mutants", own_database=True)
    tasks = [Task(place.numbered(n), one.cases, one.name) for n, one in enumerate(RACE_MUTANTS)]
    return {task.mutant: found for task, found in run_tasks(tasks, 2)}


@pytest.mark.parametrize("planted", RACE_MUTANTS, ids=lambda one: one.name)
def test_every_race_mutant_is_found_by_its_invariant(planted: RaceMutant, told: Mapping[str, list[CaseTold]]) -> None:
    outcomes = [outcome for one in told[planted.name] for outcome in one.failed]
    assert any(shows(planted, outcome) for outcome in outcomes), [one.violations for one in outcomes]


def test_the_store_as_it_is_violates_nothing_where_mutants_do(explored: World) -> None:
    cases = sorted({case for one in RACE_MUTANTS for case in one.cases}, key=str)
    some = (outcome for case in cases for outcome in islice(explore(explored, case), _SCHEDULES_MAX))
    wrong = [outcome for outcome in some if outcome.violations]
    assert wrong == []


@pytest.mark.parametrize("planted", RACE_MUTANTS, ids=lambda one: one.name)
def test_every_edit_applies_to_the_runtime_as_it_is(planted: RaceMutant) -> None:
    plot = Plot()
    for edit in planted.planted():
        plot.add(edit)
    assert plot.blocks or plot.sources
    for source in plot.sources.values():
        ast.parse(source)


def test_tasks_hold_every_case_once() -> None:
    cases = [parse_case(text) for text in ("claim+signal@parked", "claim+pause@held", "claim+turn@parked")]
    tasks = split(cases, Place("", "explore", own_database=True))
    assert sorted(map(str, (case for task in tasks for case in task.cases))) == sorted(map(str, cases))
    assert len({task.place.schema for task in tasks}) == len(tasks) == 2
    assert {len({case.state for case in task.cases}) for task in tasks} == {1}


def test_a_claim_puts_no_wake_to_rest_that_a_resume_has_just_made(explored: World) -> None:
    """Seen failing before the claim judged the pause by the row that it locked."""
    outcome = run(explored, parse_case("claim+resume@paused-due"), "BABBAAAAA")
    assert outcome.violations == []
