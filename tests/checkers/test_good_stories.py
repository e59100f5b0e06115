"""Good histories pass, and their figures are what the stories tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from tests.checkers.make_bundle import Story, write_bundle
from tests.checkers.operated_stories import buried, operated
from tests.checkers.stories import GOOD, after_commit, at_most_once, idempotent, transactional, without_journal

from ninelives_rig.judge import judge
from ninelives_rig.verdict import Status


@pytest.mark.parametrize("tell", (*GOOD, operated, buried), ids=lambda tell: tell.__name__)
def test_good_story_passes(tell: Callable[[], Story], tmp_path: Path) -> None:
    verdict = judge(write_bundle(tmp_path / "bundle", tell()))
    problems = [finding for finding in verdict.all_findings if finding.status is not Status.PASS]
    assert problems == []
    assert verdict.status is Status.PASS


def test_all_good_stories_make_one_bundle(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", *(tell() for tell in GOOD))
    assert judge(root).status is Status.PASS
    written = orjson.loads((root / "verdict.json").read_bytes())
    assert [arm["name"] for arm in written["arms"]] == [tell().spec["name"] for tell in GOOD]
    assert judge(root).status is Status.PASS, "judging again, beside an older verdict, comes to the same"


def test_verdict_file_has_the_published_fields(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", idempotent())
    judge(root)
    written = orjson.loads((root / "verdict.json").read_bytes())
    assert {"verdict", "engine", "seed", "arms", "settings"} <= written.keys()
    arm = written["arms"][0]
    figures = {
        "flows": 6,
        "completed": 6,
        "lost": 0,
        "never_opened": 0,
        "orphan_effects": 0,
        "kills": 2,
        "kills_proved": 2,
        "recovered": 3,
        "duplicates": {"against_guarantee": 0, "documented_window": 2, "between_live_workers": 0},
        "in_doubt": 0,
        "in_doubt_open": 0,
        "effects": 20,
        "steps_completed": 18,
        "kills_by_role": {"recovery": 1, "worker": 1},
        "retried": 0,
        "window_by_living": 0,
        "verdict": "PASS",
    }
    assert {name: arm[name] for name in figures} == figures
    for name in ("resume_s", "next_effect_s"):
        assert arm[name].keys() == {"n", "p50", "p95", "p99", "max"}
        assert arm[name]["n"] == 3
    assert written["settings"] == {"fsync": "on"}


def test_resume_runs_from_the_receipt_to_the_end(tmp_path: Path) -> None:
    story = after_commit()
    root = write_bundle(tmp_path / "bundle", story)
    receipt_t = story.receipts[0]["t"]
    end_t = max(event["t"] for event in story.history if event["event"] == "finished")
    next_t = min(line["t"] for line in story.witness if line["t"] > receipt_t)
    judge(root)
    arm = orjson.loads((root / "verdict.json").read_bytes())["arms"][0]
    assert arm["resume_s"]["max"] == pytest.approx((end_t - receipt_t) / 1e9)
    assert arm["next_effect_s"]["p50"] == pytest.approx((next_t - receipt_t) / 1e9)


@pytest.mark.parametrize(
    ("tell", "window", "in_doubt", "effects"),
    [(after_commit, 0, 0, 6), (at_most_once, 0, 2, 6), (transactional, 0, 0, 6), (without_journal, 1, 0, 7)],
)
def test_each_effect_counts_its_own_way(
    tell: Callable[[], Story], window: int, in_doubt: int, effects: int, tmp_path: Path
) -> None:
    (arm,) = judge(write_bundle(tmp_path / "bundle", tell())).arms
    assert arm.metrics["duplicates"]["documented_window"] == window
    assert (arm.metrics["in_doubt"], arm.metrics["in_doubt_open"]) == (in_doubt, 0)
    assert (arm.metrics["effects"], arm.metrics["steps_completed"]) == (effects, 6)


def test_what_an_engine_does_not_have_is_not_applicable(tmp_path: Path) -> None:
    (arm,) = judge(write_bundle(tmp_path / "bundle", without_journal())).arms
    without = {"results", "fencing", "tokens", "sequences", "in_doubt", "expectations"}
    not_asked_for = {"signals", "paused", "versions", "sessions", "disturbances"}
    assert set(arm.metrics["not_applicable"]) == without | not_asked_for
    assert not any(finding.checker == "fencing" for finding in arm.findings)
