"""Reading evidence: what is tolerated, what is damage, and what the seal covers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checkers.make_bundle import write_bundle
from tests.checkers.stories import idempotent

from ninelives_rig.evidence.ids import expected_id
from ninelives_rig.evidence.seal import seal, verify
from ninelives_rig.evidence.tables import flag, number, read_csv, read_jsonl, text
from ninelives_rig.schedule import SEED_MAX, instance_id

COLUMNS = (number("n"), text("word"), text("scope", required=False, blank=True), number("maybe", required=False))


def _jsonl(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "one.jsonl"
    path.write_bytes(content)
    return path


def test_jsonl_rows_have_their_types(tmp_path: Path) -> None:
    path = _jsonl(tmp_path, b'{"n":9007199254740993,"word":"a","maybe":7}\n{"n":2,"word":"b","scope":"7/2"}\n')
    reading = read_jsonl([(path, "one")], COLUMNS)
    assert (reading.damage, reading.tails) == ([], [])
    assert reading.frame["n"].tolist() == [2**53 + 1, 2]
    assert reading.frame["scope"].tolist() == ["", "7/2"]
    assert reading.frame["maybe"].isna().tolist() == [False, True]


def test_last_line_may_be_cut(tmp_path: Path) -> None:
    whole = b'{"n":1,"word":"a"}\n'
    for length in range(1, len(whole) - 1):
        reading = read_jsonl([(_jsonl(tmp_path, whole + whole[:length]), "one")], COLUMNS)
        assert (len(reading.frame), reading.tails, reading.damage) == (1, ["one"], [])
    reading = read_jsonl([(_jsonl(tmp_path, whole + whole[:-1]), "one")], COLUMNS)
    assert (len(reading.frame), reading.tails) == (2, []), "only its newline is missing"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"n":1,"wo\n', "is not JSON"),
        (b"\n", "is not JSON"),
        (b'{"n":NaN,"word":"a"}\n', "is not JSON"),
        (b"[1]\n", "not a JSON object"),
        (b'{"n":1.5,"word":"a"}\n', "n is 1.5, not an integer"),
        (b'{"n":-1,"word":"a"}\n', "n is -1, not an integer"),
        (b'{"n":1e999,"word":"a"}\n', "is not JSON"),
        (b'{"n":true,"word":"a"}\n', "n is True, not an integer"),
        (b'{"n":18446744073709551615,"word":"a"}\n', "not an integer"),
        (b'{"word":"a"}\n', "n is missing"),
        (b'{"n":null,"word":"a"}\n', "n is missing"),
        (b'{"n":1,"word":3}\n', "word is 3, not a text"),
        (b'{"n":1,"word":""}\n', "word is missing, null or empty"),
        (b'{"n":1,"word":"a","maybe":"x"}\n', "maybe is 'x'"),
    ],
)
def test_anything_else_is_damage_with_its_place(line: bytes, reason: str, tmp_path: Path) -> None:
    good = b'{"n":1,"word":"a"}\n'
    reading = read_jsonl([(_jsonl(tmp_path, good + line + good), "one")], COLUMNS)
    assert len(reading.frame) == 2
    (damage,) = reading.damage
    assert str(damage).startswith("one:2: ")
    assert reason in str(damage)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no header line"),
        ("n,other\n", "lacks the column word"),
        ("n,word\n1,a\nNaN,b\n", "one:3: n is 'NaN', not an integer"),
        ("n,word\n1.0,a\n", "one:2: n is '1.0', not an integer"),
        ("n,word\n,a\n", "one:2: n is missing"),
        ("n,word\n1\n", "one:2: has another number of fields"),
        ('n,word\n1,"a\n', "cannot be read"),
        ("n,word,on\n1,a,maybe\n", "on is 'maybe', not a boolean"),
    ],
)
def test_csv_damage(content: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text(content)
    reading = read_csv(path, "one", (*COLUMNS, flag("on", required=False)))
    (damage,) = reading.damage
    assert reason in str(damage)


def test_csv_as_copy_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text('n,word,scope,maybe,on,input\n1,a,"",,t,"{""x"": ""two\nlines""}"\n2,b,7/2,5,f,\n')
    reading = read_csv(path, "one", (*COLUMNS, flag("on")))
    assert reading.damage == []
    assert reading.frame["on"].tolist() == [True, False]
    assert reading.frame["scope"].tolist() == ["", "7/2"]


def test_missing_table_is_damage(tmp_path: Path) -> None:
    reading = read_csv(tmp_path / "none.csv", "tables/none.csv", COLUMNS)
    assert [str(damage) for damage in reading.damage] == ["tables/none.csv: is missing"]
    assert list(reading.frame.columns) == [column.name for column in COLUMNS]


def test_seal_covers_evidence_and_nothing_that_comes_later(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", idempotent())
    assert verify(root).intact
    for name in ("verdict.json", "report.md", "arms/before-commit/logs/postgres.log"):
        (root / name).write_text("later")
    assert verify(root).intact
    (root / "arms/before-commit/history/coordinator.jsonl").write_bytes(b"")
    assert verify(root).changed == ("arms/before-commit/history/coordinator.jsonl",)
    seal(root)
    assert verify(root).intact


def test_judging_needs_neither_a_driver_nor_the_runtime() -> None:
    code = (
        "import sys, ninelives_rig.judge; "
        "print(sorted({'psycopg', 'ninelives'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@given(st.integers(0, SEED_MAX), st.text(max_size=20), st.integers(0, 2**24 - 1))
def test_the_judge_knows_the_ids_that_a_run_gives(seed: int, arm: str, index: int) -> None:
    assert expected_id(seed, arm, index) == str(instance_id(seed, arm, index))
