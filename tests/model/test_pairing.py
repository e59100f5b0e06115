"""Every mutant of the model has its mutant of the real store, or a reason why there is none; no name is out of date."""

from __future__ import annotations

from tests.model import group_commit, mutants
from tests.model.pairing import PAIRS, UNPAIRED

from ninelives_rig.sabotage.mutants import MUTANTS as SABOTAGE

NUMBERS = {mutant.number for mutant in mutants.MUTANTS} | {mutant.number for mutant in group_commit.MUTANTS}


def test_every_mutant_of_the_model_is_paired_or_has_a_reason() -> None:
    assert set(PAIRS) & set(UNPAIRED) == set()
    assert set(PAIRS) | set(UNPAIRED) == NUMBERS
    assert all(PAIRS.values()) and all(UNPAIRED.values())


def test_every_mutant_that_is_named_exists() -> None:
    existing = {mutant.name for mutant in SABOTAGE}
    named = {name for names in PAIRS.values() for name in names}
    assert named - existing == set()


def test_what_a_mutant_of_the_store_says_of_the_model_is_what_the_pairs_say() -> None:
    said = {
        (number, mutant.name) for mutant in SABOTAGE for number in mutant.protocol.split() if number in NUMBERS
    }
    assert said - {(number, name) for number, names in PAIRS.items() for name in names} == set()
