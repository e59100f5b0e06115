"""Every checker finds, by name, what it is there for; a checker that never did fails here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.checkers.bad_stories import CASES, Case
from tests.checkers.make_bundle import write_bundle

from ninelives_rig.checkers import CHECKERS
from ninelives_rig.judge import BUNDLE_FINDINGS, judge
from ninelives_rig.verdict import Status


def sampled(cases: Sequence[Case]) -> Iterator[object]:
    """Every case as a test's parameter; past the first two of a checker they are slow: make check leaves them out."""
    seen = Counter[str]()
    for case in cases:
        checkers = {name.partition(".")[0] for name in case.findings}
        marks = [pytest.mark.slow] if all(seen[checker] >= 2 for checker in checkers) else []
        seen.update(checkers)
        yield pytest.param(case, id=case.title, marks=marks)


@pytest.mark.parametrize("case", list(sampled(CASES)))
def test_bad_story_is_found_by_name(case: Case, tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", case.tell())
    if case.spoil:
        case.spoil(root)
    verdict = judge(root)
    problems = [finding for finding in verdict.all_findings if finding.status is not Status.PASS]
    assert {finding.name for finding in problems} == case.findings
    assert verdict.status is case.status
    for finding in problems:
        assert finding.count >= 1
        assert finding.sentence.endswith(".")
        assert "raised" not in finding.name


def test_every_finding_has_a_bad_story() -> None:
    """A check that has never failed is not a check."""
    found = frozenset[str]().union(*(case.findings for case in CASES))
    declared = {name for checker in CHECKERS for name in checker.finding_names} | set(BUNDLE_FINDINGS)
    assert declared - found == set(), "these findings have no bad history in bad_stories.py"
    assert found - declared == set(), "these findings are not declared by their checker"


def test_titles_and_checkers_are_unique() -> None:
    assert len({case.title for case in CASES}) == len(CASES)
    assert len({checker.name for checker in CHECKERS}) == len(CHECKERS)
