"""The lines of the report: what each exploration found, and whether that is what has to be found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tests.model import group_commit, lock_order
from tests.model import sessions as session_model
from tests.model.configurations import BY_NAME, CONFIGURATIONS
from tests.model.explore import Outcome, explore
from tests.model.mutants import MUTANTS
from tests.model.store import Store

_GROUP_COMMIT: Final = "group commit"


def configuration_names() -> list[str]:
    """Return what there is to explore, the greatest first, so that the last process does not end long behind."""
    by_size = sorted(CONFIGURATIONS, key=lambda configuration: -configuration.transitions)
    return [*(configuration.name for configuration in by_size), _GROUP_COMMIT]


def mutant_numbers() -> list[str]:
    """Return the numbers of all mutants."""
    return [mutant.number for mutant in (*MUTANTS, *group_commit.MUTANTS)]


class Line(NamedTuple):
    """One line of the report."""

    name: str
    expected: str
    outcome: Outcome
    is_good: bool


def run_configuration(name: str) -> Line:
    """Explore a configuration of the protocol, which has to hold, and has to count what it counted before."""
    if name == _GROUP_COMMIT:
        outcome = explore(group_commit.GroupCommit())
        counts = (group_commit.STATES, group_commit.TRANSITIONS)
    else:
        configuration = BY_NAME[name]
        outcome = explore(Store(configuration.setting()))
        counts = (configuration.states, configuration.transitions)
    is_same = (outcome.states, outcome.transitions) == counts
    expected = "" if is_same else f"recorded: {counts[0]:,} states, {counts[1]:,} transitions"
    return Line(name, expected, outcome, outcome.violation is None and is_same)


def run_mutant(number: str) -> Line:
    """Explore a mutant, which has to violate its invariant by the shortest way that was found before."""
    for store_mutant in MUTANTS:
        if store_mutant.number == number:
            outcome = explore(Store(store_mutant.setting()))
            return _judged(f"{number} {store_mutant.what}", store_mutant.invariant, store_mutant.steps, outcome)
    mutant = next(each for each in group_commit.MUTANTS if each.number == number)
    return _judged(f"{number} {mutant.what}", mutant.invariant, mutant.steps, explore(mutant.space))


def _judged(name: str, invariant: str, steps: int, outcome: Outcome) -> Line:
    is_good = (outcome.invariant, len(outcome.script)) == (invariant, steps)
    return Line(name, f"{invariant} in {steps} steps", outcome, is_good)


def print_configurations(lines: Iterable[Line]) -> bool:
    """Print the table of configurations; tell whether all of them hold."""
    print(f"{'configuration':<16}{'states':>12}{'transitions':>14}{'seconds':>9}  violation")
    states = transitions = 0
    good = True
    for line in lines:
        outcome = line.outcome
        states, transitions = states + outcome.states, transitions + outcome.transitions
        good = good and line.is_good
        said = str(outcome.violation or "none") + (f"; {line.expected}" if line.expected else "")
        counts = f"{outcome.states:>12,}{outcome.transitions:>14,}{outcome.seconds:>9.1f}"
        print(f"{line.name:<16}{counts}  {said}", flush=True)
        print("".join(f"    {text}\n" for text in outcome.told()), end="")
    print(f"{'all':<16}{states:>12,}{transitions:>14,}\n")
    return good


def print_mutants(lines: Iterable[Line], *, scripts: bool) -> bool:
    """Print the table of mutants; tell whether each was caught as it has to be."""
    print(f"{'mutant':<62}{'caught by':<11}{'steps':>5}{'states':>9}")
    good = True
    for line in lines:
        outcome = line.outcome
        good = good and line.is_good
        remark = "" if line.is_good else f"  NOT AS EXPECTED: {line.expected}"
        caught = outcome.invariant or "nothing"
        print(f"{line.name:<62}{caught:<11}{len(outcome.script):>5}{outcome.states:>9,}{remark}", flush=True)
        if scripts:
            print("".join(f"    {text}\n" for text in outcome.told()), end="")
    print()
    return good


def print_lock_orders() -> bool:
    """Print what the exploration of lock waits found; tell whether only the wrong orders block each other."""
    good = True
    for what, operations in (("protocol", lock_order.PROTOCOL), ("store", lock_order.STORE)):
        found = lock_order.explore_triples(operations)
        good = good and not found.cycle
        print(
            f"lock order of the {what}: {len(operations)} operations, {found.triples:,} triples, "
            f"{found.states:,} states, {'no cycle' if not found.cycle else found.cycle}"
        )
    for mutant in lock_order.MUTANTS:
        outcome = explore(lock_order.LockOrder(mutant.operations))
        good = good and outcome.invariant == "L2"
        print(f"  {mutant.name:<74}{outcome.invariant or 'NOT CAUGHT'} in {len(outcome.script)} steps")
    print()
    return good


def print_sessions() -> bool:
    """Print what the exploration of sessions found; tell whether each set of rules does as it has to."""
    good = True
    for case in session_model.CASES:
        outcome = explore(session_model.SessionDeath(case.rules))
        good = good and outcome.invariant == case.invariant
        print(f"sessions: {case.name:<62}{outcome.states:>8,} states  {outcome.invariant or 'holds'}")
    print()
    return good
