"""The command: one schedule as a script, few cases with their tables, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from ninelives_rig.commands import app

pytestmark = pytest.mark.postgres


def called(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["explore", *arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def test_a_script_shows_every_move_and_its_exit_code_is_the_verdict(database_dsn: str) -> None:
    code, said, _ = called("--script", "park+signal@held:AB", "--dsn", database_dsn)
    assert code == 0
    assert "B signal         signal ... waits" in said and "= A: park parked" in said
    planted = ("--script", "settle+void@doubt-held:AAAABBB", "--plant", "settle-under-holder")
    code, said, _ = called(*planted, "--dsn", database_dsn)
    assert code == 1
    assert "VIOLATION I3: an intent was settled" in said


def test_cases_are_chosen_by_name_and_written_down(database_dsn: str, tmp_path: Path) -> None:
    code, said, _ = called("--only", "renew+die@held", "--dsn", database_dsn, "--out", str(tmp_path))
    assert code == 0, said
    content = orjson.loads((tmp_path / "explore.json").read_bytes())
    assert content["total"]["cases"] == 1 and content["total"]["schedules"] > 2
    assert content["violations"] == [] == content["mutants"]
    assert (tmp_path / "explore.md").read_text().startswith("# Every order of the store's statements: PASS")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--only", "nothing of the kind"), "--list"),
        (("--script", "park@held:A"), "two or three can meet"),
        (("--script", "park+fly@held:A"), "no operation 'fly'"),
        (("--script", "park+signal@nowhere:A"), "no state 'nowhere'"),
        (("--script", "park+signal@held:AX"), "letters AB"),
        (("--plant", "pause-ignored"), "--script"),
        (("--script", "park+signal@held:A", "--plant", "nothing"), "no race mutant"),
    ],
)
def test_what_cannot_be_explored_is_refused_with_what_can(
    arguments: tuple[str, ...], complaint: str, database_dsn: str
) -> None:
    code, _, errors = called(*arguments, "--dsn", database_dsn)
    assert (code, complaint in errors) == (3, True), errors
