"""Every mutant applies to the runtime as it is now, is sound SQL or Python, and one of them is caught here and now."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import ExecStatus
from tests.checkers.bad_stories import CASES

from ninelives.migrate import migrate
from ninelives.queries import in_schema
from ninelives_rig import sabotage
from ninelives_rig.checkers import CHECKERS
from ninelives_rig.sabotage.code_mutants import CODE_MUTANTS, SLOWNESS
from ninelives_rig.sabotage.mutants import MUTANTS, NOT_PLANTED
from ninelives_rig.sabotage.planting import CodeEdit, EditRefused, Plot, SqlEdit, edits_of
from ninelives_rig.sabotage.scenarios import SCENARIOS
from ninelives_rig.sabotage.sql_mutants import SQL_MUTANTS

PLANTED = sorted({*SQL_MUTANTS, *CODE_MUTANTS, *SLOWNESS})

# PROTOCOL.md section 4, as its model numbers them.
MODEL = {f"M{number:02}" for number in range(1, 36)} | {"M02b", "M03b", "M03c", "M06b", "M07b"}


def plot_of(name: str) -> Plot:
    plot = Plot()
    for edit in edits_of(name):
        plot.add(edit)
    return plot


@pytest.mark.parametrize("name", PLANTED)
def test_every_edit_applies_to_the_runtime_as_it_is(name: str) -> None:
    plot = plot_of(name)
    assert plot.blocks or plot.sources
    for source in plot.sources.values():
        ast.parse(source)


@pytest.mark.postgres
def test_edited_statements_are_sound_and_take_the_same_parameters(database_dsn: str) -> None:
    """A mutant that the server refuses, or reads otherwise than it is sent, would fail for the wrong reason."""
    migrate(database_dsn)
    with psycopg.connect(database_dsn, autocommit=True) as connection:
        for name in sorted(SQL_MUTANTS):
            for block, text in plot_of(name).blocks.items():
                assert described(connection, text) == described(connection, plot_of(name).original(block)), name


def described(connection: psycopg.Connection, text: str) -> tuple[list[int], list[int]]:
    """Let the server parse a statement; returns the types of its parameters and of its columns."""
    statement = in_schema(text, "ninelives").encode()
    result = connection.pgconn.prepare(b"", statement)
    assert result.status == ExecStatus.COMMAND_OK, result.error_message.decode()
    seen = connection.pgconn.describe_prepared(b"")
    return [seen.param_type(n) for n in range(seen.nparams)], [seen.ftype(n) for n in range(seen.nfields)]


def test_a_text_that_is_not_there_or_a_name_that_is_unknown_is_an_error() -> None:
    for edit in (
        SqlEdit("claim", "no such text", ""),
        SqlEdit("no_such_block", "select", ""),
        SqlEdit("claim", "select", "more than one"),
        CodeEdit("ninelives.node:Node._claim", "no such text", ""),
        CodeEdit("ninelives.node:Node.no_such_method", "", ""),
        CodeEdit("ninelives.no_such_module:f", "", ""),
    ):
        with pytest.raises(EditRefused):
            Plot().add(edit)
    with pytest.raises(EditRefused):
        edits_of("no-such-mutant")


def test_mutants_name_scenarios_checkers_and_edits_that_exist() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert {mutant.scenario for mutant in MUTANTS} == {scenario.name for scenario in SCENARIOS}
    assert {mutant.checker for mutant in MUTANTS} <= {checker.name for checker in CHECKERS}
    assert {mutant.name for mutant in MUTANTS if mutant.planted} == {*SQL_MUTANTS, *CODE_MUTANTS}
    assert {name for scenario in SCENARIOS for name in scenario.slowness} == set(SLOWNESS)


def test_every_checker_is_named_by_a_mutant_or_has_a_bad_history() -> None:
    named = {mutant.checker for mutant in MUTANTS}
    told = {finding.partition(".")[0] for case in CASES for finding in case.findings}
    assert unseen((checker.name for checker in CHECKERS), named | told) == []


def unseen(checkers: Iterable[str], shown: set[str]) -> list[str]:
    """Return the checkers that nothing has ever been seen to fail."""
    return sorted(set(checkers) - shown)


def test_a_checker_that_nothing_shows_to_fail_is_seen() -> None:
    assert unseen(["lost", "luck"], {"lost"}) == ["luck"]


def test_every_mutant_of_the_model_is_planted_or_has_a_reason() -> None:
    planted = {number for mutant in MUTANTS for number in mutant.protocol.split() if number.startswith("M")}
    left = {number for numbers, _, reason in NOT_PLANTED for number in numbers.split() if reason}
    assert planted | left == MODEL
    assert planted & left == set()


@pytest.mark.postgres
@pytest.mark.chaos
@pytest.mark.slow
def test_a_mutant_is_caught_by_its_checker_and_its_control_passes(
    database_dsn: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--dsn", database_dsn, "--out", str(tmp_path / "out"), "--json"]
    arguments += ["--only", "token-kept-on-takeover", "--only", "empty-history"]
    code = sabotage.main(arguments)
    told = json.loads(capfd.readouterr().out)
    assert [(one["name"], one["good"]) for one in told["controls"]] == [("control of kills", True)], told
    assert {one["name"]: one["evidence"].partition(":")[0] for one in told["mutants"]} == {
        "token-kept-on-takeover": "tokens.not_rising",
        "empty-history": "evidence.empty",
    }
    assert code == 0


def test_an_unknown_mutant_and_a_full_directory_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sabotage.main(["--only", "no-such-mutant"]) == 3
    assert "no-such-mutant" in capsys.readouterr().err
    (tmp_path / "file").write_text("mine")
    assert sabotage.main(["--only", "no-audit", "--out", str(tmp_path)]) == 3
    assert "--out" in capsys.readouterr().err


def test_the_list_shows_every_mutant_and_what_is_not_planted(capsys: pytest.CaptureFixture[str]) -> None:
    assert sabotage.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(mutant.name in listed and mutant.removes in listed for mutant in MUTANTS)
    assert all(reason in listed for _, _, reason in NOT_PLANTED)
