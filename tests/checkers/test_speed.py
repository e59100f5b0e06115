"""A bundle of the published campaign's size is judged in seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.checkers.make_bundle import Story, write_bundle

from ninelives_rig.judge import judge
from ninelives_rig.verdict import Status

FLOWS = 10_000
KILLS = 100
BOUND_S = 10.0


def large_story(position: str) -> Story:
    """Many flows in blocks of 40 in flight; in each of the first blocks, the worker that holds them is killed."""
    story = Story(position, position=position, flows=FLOWS)
    for index in range(FLOWS):
        story.start(index)
    story.node("recovery-1", "recovery")
    block = 40
    for number, first in enumerate(range(0, FLOWS, block)):
        worker = f"worker-{min(number, KILLS)}"
        if worker not in story.pids:
            story.node(worker, "worker")
        indexes = range(first, first + block)
        for index in indexes:
            story.claim(worker, index)
            story.step(worker, index, 1)
        if number < KILLS:
            story.apply(worker, first, 2)
            if position == "after-commit":
                story.commit(first, 2)
            story.kill(worker, first, 2)
            for index in indexes:
                story.claim("recovery-1", index)
        for index in indexes:
            done = position == "after-commit" and index == first and number < KILLS
            story.run("recovery-1" if number < KILLS else worker, index, first=3 if done else 2)
    story.close()
    return story


@pytest.mark.slow
def test_two_arms_of_ten_thousand_flows(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", large_story("before-commit"), large_story("after-commit"))
    begun = time.process_time()
    verdict = judge(root)
    took_s = time.process_time() - begun
    assert verdict.status is Status.PASS
    assert [arm.metrics["kills_proved"] for arm in verdict.arms] == [KILLS, KILLS]
    assert [arm.metrics["duplicates"]["documented_window"] for arm in verdict.arms] == [KILLS, 0]
    assert [arm.metrics["resume_s"]["n"] for arm in verdict.arms] == [KILLS * 40, KILLS * 40]
    assert took_s < BOUND_S
