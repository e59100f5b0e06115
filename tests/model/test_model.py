"""A selection of the model that takes seconds: small configurations hold, every mutant is caught, scripts read well."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest
from tests.model import group_commit, lock_order
from tests.model.configurations import BY_NAME, CONFIGURATIONS
from tests.model.explore import explore
from tests.model.invariants import INVARIANTS
from tests.model.lock_order import LockOrder, Operation, OrderMutant
from tests.model.mutants import MUTANTS, Mutant
from tests.model.sessions import CASES, SessionCase, SessionDeath
from tests.model.setting import FAULTS
from tests.model.store import Store

SMALL = ("runat", "childtx", "frozensig")

# Explored in whole they take several seconds each; `make model` runs them.
LONG = {"M14", "M34", "M40"}

# I5 and I7 are broken together with something that is seen first: L1, I6.
NEVER_FIRST = {"I5", "I7"}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_configuration_holds_and_counts_as_recorded(name: str) -> None:
    configuration = BY_NAME[name]
    outcome = explore(Store(configuration.setting()))
    assert outcome.told() == []
    assert (outcome.states, outcome.transitions) == (configuration.states, configuration.transitions)


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.number not in LONG], ids=lambda mutant: mutant.number)
def test_a_mutant_is_caught_by_its_invariant(mutant: Mutant) -> None:
    outcome = explore(Store(mutant.setting()))
    assert (outcome.invariant, len(outcome.script)) == (mutant.invariant, mutant.steps), "\n".join(outcome.told())


def test_group_commit_holds() -> None:
    outcome = explore(group_commit.GroupCommit())
    assert outcome.told() == []
    assert (outcome.states, outcome.transitions) == (group_commit.STATES, group_commit.TRANSITIONS)


@pytest.mark.parametrize("mutant", group_commit.MUTANTS, ids=lambda mutant: mutant.number)
def test_a_mutant_of_group_commit_is_caught(mutant: group_commit.GroupMutant) -> None:
    outcome = explore(mutant.space)
    assert (outcome.invariant, len(outcome.script)) == (mutant.invariant, mutant.steps), "\n".join(outcome.told())


@pytest.mark.parametrize("operations", [lock_order.PROTOCOL, lock_order.STORE], ids=["protocol", "store"])
def test_no_two_operations_wait_for_each_other(operations: tuple[Operation, ...]) -> None:
    """Two at a time; `make model` takes three."""
    for pair in combinations_with_replacement(operations, 2):
        assert explore(LockOrder(pair)).told() == []


@pytest.mark.parametrize("mutant", lock_order.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_lock_order_is_caught(mutant: OrderMutant) -> None:
    assert explore(LockOrder(mutant.operations)).invariant == "L2"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_wrong_rules_declare_a_living_session_dead(case: SessionCase) -> None:
    outcome = explore(SessionDeath(case.rules))
    assert outcome.invariant == case.invariant, "\n".join(outcome.told())


def test_every_invariant_is_seen_broken() -> None:
    broken = {m.invariant for m in MUTANTS} | {m.invariant for m in group_commit.MUTANTS} | {"L2"}
    broken |= {case.invariant for case in CASES}
    assert set(INVARIANTS) - broken == NEVER_FIRST


def test_names_are_unique_and_every_fault_is_used() -> None:
    numbers = [m.number for m in MUTANTS] + [m.number for m in group_commit.MUTANTS]
    assert len(set(numbers)) == len(numbers)
    assert len(BY_NAME) == len(CONFIGURATIONS)
    used = {fault for configuration in CONFIGURATIONS for fault, bound in configuration.faults.items() if bound}
    assert used == set(FAULTS)


def test_a_counterexample_is_a_readable_script() -> None:
    """The bug that the runtime had: a claim met a pause in its snapshot, and put to rest what was woken since."""
    mutant = next(m for m in MUTANTS if m.number == "M36")
    assert explore(Store(mutant.setting())).told() == [
        "  1. client: start instance 0",
        "  2. operator: pause instance 0",
        "  3. node 0's claim looks at instance 0",
        "  4. operator: resume instance 0",
        "  5. node 0: claim instance 0",
        "     I13 an instance is unheld and not due, and has not seen its last wake",
    ]


def test_a_script_of_what_never_ends_goes_on_to_where_everything_rests() -> None:
    mutant = next(m for m in MUTANTS if m.number == "M01")
    assert explore(Store(mutant.setting())).told()[-4:] == [
        "   + node 0 begins step 0 of instance 0",
        "   + node 0: commit instance 0",
        "   + node 0: park instance 0",
        "     at rest: instance 0 is Suspended, unheld, run_at null, seq 0, seen_seq 0",
    ]
