"""Faults in reports: each arm's proof and figures, the catalogue, and what is shaded in the timeline."""

from __future__ import annotations

from pathlib import Path

from tests.checkers.stories import frozen, idempotent
from tests.reports.bundles import judged, row, sections

from ninelives_reports import render
from ninelives_reports.faults import CATALOGUE
from ninelives_reports.load import load_view
from ninelives_reports.timeline import read_timeline
from ninelives_scenarios.faults import CAMPAIGN


def text_of(root: Path) -> str:
    return render(root).read_text(encoding="utf-8")


def test_a_fault_stands_with_its_proof_and_what_came_of_it(tmp_path: Path) -> None:
    text = text_of(judged(tmp_path / "bundle", frozen()))
    told = row(sections(text)["The faults"], "frozen")
    assert told[1:5] == ["freeze", "30 s", "1", "SIGSTOP sent; was in state T"]
    assert told[5:7] == ["0", "1"]
    assert "1 fault of other kinds happened meanwhile" in text


def test_a_run_of_kills_alone_has_no_such_section(tmp_path: Path) -> None:
    assert "The faults" not in sections(text_of(judged(tmp_path / "bundle", idempotent())))


def test_a_fault_is_drawn_on_the_lane_that_it_hit(tmp_path: Path) -> None:
    view = load_view(judged(tmp_path / "bundle", frozen()))
    timeline = read_timeline(view.arms[0])
    assert timeline is not None
    ((begin_s, end_s),) = [fault for lane in timeline.lanes for fault in lane.faults]
    assert 0 < begin_s < end_s <= timeline.length_s
    assert timeline.faults == ()


def test_the_catalogue_names_arms_of_the_campaign_and_every_one_of_them() -> None:
    named = {name for _, _, _, names in CATALOGUE for name in names}
    assert named == {arm.name for arm in CAMPAIGN.arms}
