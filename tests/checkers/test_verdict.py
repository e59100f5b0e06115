"""The order in which verdicts merge, and what can never turn into a pass."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from tests.checkers.bad_stories import CASES
from tests.checkers.make_bundle import Story, write_bundle
from tests.checkers.stories import after_commit, idempotent

from ninelives_rig.checkers import CHECKERS, Checker
from ninelives_rig.checkers.facts import Facts
from ninelives_rig.evidence.ids import expected_id
from ninelives_rig.evidence.seal import seal
from ninelives_rig.judge import check_command, judge
from ninelives_rig.verdict import ArmVerdict, Finding, Status, Verdict, merge

PASS, FAIL, UNSURE, BROKEN = Status.PASS, Status.FAIL, Status.INCONCLUSIVE, Status.BROKEN


def test_exit_codes_are_the_published_ones() -> None:
    assert [status.exit_code for status in (PASS, FAIL, UNSURE, BROKEN)] == [0, 1, 2, 3]


@pytest.mark.parametrize("statuses", list(itertools.product(Status, repeat=3)))
def test_merge_is_the_gravest_in_any_order(statuses: tuple[Status, ...]) -> None:
    gravest = next(status for status in (BROKEN, FAIL, UNSURE, PASS) if status in statuses)
    assert merge(statuses) is gravest


def test_no_check_at_all_is_not_a_pass() -> None:
    assert merge([]) is UNSURE
    passed = Finding("seal", PASS, 0, "Fine.")
    assert Verdict("c", "e", 1, "0", {}, (), (passed,)).status is UNSURE
    assert ArmVerdict("a", {}, ()).status is UNSURE


def _raising(facts: Facts) -> list[Finding]:
    raise ZeroDivisionError("made up")


RAISING = Checker("raising", "Nothing.", (), _raising)


def test_checker_that_raises_is_inconclusive_and_hides_no_other(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", idempotent())
    verdict = judge(root, checkers=(RAISING, *CHECKERS))
    problems = [finding for finding in verdict.all_findings if finding.status is not PASS]
    assert [(finding.name, finding.status) for finding in problems] == [("raising.raised", UNSURE)]
    assert "made up" in problems[0].sentence
    (arm,) = verdict.arms
    assert len(arm.findings) == 1 + len(CHECKERS) - len(arm.metrics["not_applicable"])


def test_failure_beats_a_checker_that_raises(tmp_path: Path) -> None:
    lost = next(case for case in CASES if case.title == "lost_instance")
    root = write_bundle(tmp_path / "bundle", lost.tell())
    assert judge(root, checkers=(RAISING, *CHECKERS)).status is FAIL


def test_one_bad_arm_decides_over_good_ones(tmp_path: Path) -> None:
    lost = next(case for case in CASES if case.title == "lost_instance")
    verdict = judge(write_bundle(tmp_path / "bundle", after_commit(), lost.tell()))
    assert [arm.status for arm in verdict.arms] == [PASS, FAIL]
    assert verdict.status is FAIL


def test_unsure_arm_is_not_outvoted(tmp_path: Path) -> None:
    unsure = next(case for case in CASES if case.title == "kill_without_a_receipt")
    verdict = judge(write_bundle(tmp_path / "bundle", after_commit(), unsure.tell()))
    assert verdict.status is UNSURE


def _slowly() -> Story:
    """The good story, with 999 seconds between the last kill and everything behind it."""
    story = idempotent()
    last = max(receipt["t"] for receipt in story.receipts)
    story.t += 999_000_000_000
    for row in (*story.history, *story.witness):
        row["t"] += 999_000_000_000 * (row["t"] > last)
    return story


def test_resume_p99_of_999_seconds_passes(tmp_path: Path) -> None:
    verdict = judge(write_bundle(tmp_path / "bundle", _slowly()))
    assert verdict.status is PASS
    assert verdict.arms[0].metrics["resume_s"]["p99"] > 999


def test_window_duplicates_pass(tmp_path: Path) -> None:
    verdict = judge(write_bundle(tmp_path / "bundle", idempotent()))
    assert verdict.arms[0].metrics["duplicates"]["documented_window"] == 2
    assert verdict.status is PASS


def _cut_worker_line() -> Story:
    story = idempotent()
    story.tails = {"history/worker-1.jsonl": b'{"t":1,"proc', "witness/worker-1.jsonl": b'{"t'}
    return story


def test_line_cut_short_by_the_kill_is_counted_and_tolerated(tmp_path: Path) -> None:
    verdict = judge(write_bundle(tmp_path / "bundle", _cut_worker_line()))
    assert verdict.status is PASS
    assert verdict.arms[0].metrics["truncated_lines"] == 2


def test_findings_show_their_evidence(tmp_path: Path) -> None:
    again = next(case for case in CASES if case.title == "committed_step_done_again")
    verdict = judge(write_bundle(tmp_path / "bundle", again.tell()))
    (finding,) = (one for one in verdict.all_findings if one.status is FAIL)
    assert finding.count == 1
    for words in (f"instance_id={expected_id(7, 'before-commit', 4)}", "step_id=1", "token=2"):
        assert words in finding.sentence
        assert words in finding.lines[0]


@pytest.mark.parametrize("tell", [idempotent, _slowly], ids=["good", "slow"])
def test_check_command_prints_and_returns_the_exit_code(
    tell: Callable[[], Story], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_bundle(tmp_path / "bundle", tell())
    assert check_command(root, json=True) == 0
    assert orjson.loads(capsys.readouterr().out)["verdict"] == "PASS"
    assert check_command(root, json=False) == 0
    assert capsys.readouterr().out.startswith("PASS  engine ninelives")


@pytest.mark.parametrize("title", ["lost_instance", "kill_without_a_receipt", "no_manifest"])
def test_check_command_says_what_is_wrong(title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(case for case in CASES if case.title == title)
    root = write_bundle(tmp_path / "bundle", case.tell())
    if case.spoil:
        case.spoil(root)
    assert check_command(root, json=False) == case.status.exit_code
    printed = capsys.readouterr().out
    assert printed.startswith(case.status.value)
    assert all(name in printed for name in case.findings)


def test_check_command_of_nothing_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_command(tmp_path / "nowhere", json=True) == 3
    assert orjson.loads(capsys.readouterr().out)["verdict"] == "BROKEN"
    assert not (tmp_path / "nowhere").exists()


def test_broken_arm_leaves_its_figures_unknown(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.title == "arm_without_a_declaration")
    root = write_bundle(tmp_path / "bundle", case.tell())
    assert case.spoil is not None
    case.spoil(root)
    judge(root)
    (arm,) = orjson.loads((root / "verdict.json").read_bytes())["arms"]
    assert (arm["verdict"], arm["flows"], arm["lost"], arm["resume_s"]["n"]) == ("BROKEN", None, None, 0)


def _interrupt(root: Path) -> None:
    """Make of a bundle what an interruption leaves: no tables, and a manifest that says so."""
    path = root / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"dirty"', b'"aborted":"interrupted","dirty"'))
    seal(root)


def test_an_interrupted_run_without_tables_accuses_nobody(tmp_path: Path) -> None:
    """Its nodes saw ends acknowledged that no table shows, because no table was collected."""
    root = write_bundle(tmp_path / "bundle", idempotent())
    shutil.rmtree(root / "arms" / "before-commit" / "tables")
    _interrupt(root)
    verdict = judge(root)
    assert verdict.status is UNSURE
    assert "acknowledged.end_missing" in {finding.name for finding in verdict.all_findings}


def test_what_an_interrupted_run_does_show_still_counts(tmp_path: Path) -> None:
    stale = next(case for case in CASES if "fencing.stale_row" in case.findings)
    root = write_bundle(tmp_path / "bundle", stale.tell())
    _interrupt(root)
    assert judge(root).status is FAIL
