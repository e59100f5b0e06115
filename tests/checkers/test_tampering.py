"""Whoever changes one value of a bundle and seals it again is found out, but where the value only informs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.checkers.make_bundle import Story, write_bundle
from tests.checkers.operated_stories import buried, operated
from tests.checkers.stories import at_most_once, transactional
from tests.checkers.tampering import Detector, apply, every_change

INFORMS = {
    # Where it was run, which nothing else in a bundle can know.
    r"manifest:environment\..*": "the machine and the versions",
    r"manifest:settings\..*": "the server's settings; those that stand twice, and the first arm's, are compared",
    # What a run was tuned with. No clause rests on it.
    r"arm:(in_flight|flows_max|recovery_flows_max|takeovers_max|converge_timeout_s)": "limits of the load",
    r"arm:steps\[\]\.service_s": "how long the steps took",
    r"arm:progressing": "read only where the arm did not converge",
    r"schedule:\[\]\.role": "empty: a node of any role was meant",
    r"schedule:\[\]\.token_min": "a bound that the kill keeps by far",
    # What this release has no use for, or the engine keeps for itself.
    r"manifest:not_applicable": "arms that the engine could not run, of which there is no evidence",
    r"tables/instance\.(parent_.*|resume_from_step|deadline_at|tenant_id|correlation_id)": "no arm has any",
    r"tables/instance\.(version|claims)": "counters of the engine's own writes",
    r"tables/session\.server_start": "when the server was started, by its own word",
    r"tables/step\.(retry_at|nondeterministic)": "what the engine gives to a later attempt",
}
"""Values that only inform, and why nothing in a bundle can contradict them."""
FURTHER = (at_most_once, operated, transactional)


def spots(story: Story, root: Path) -> set[str]:
    """Return every field that a story's bundle has."""
    return {change.spot for change in every_change(write_bundle(root, story))}


def accepted_changes(story: Story, root: Path, shown: set[str]) -> list[str]:
    """Return the changes of a story's bundle that nothing objects to, of fields that were not shown before."""
    detector, accepted = Detector(), []
    write_bundle(root, story)
    assert not detector.objects(root)
    for change in [change for change in every_change(root) if change.spot not in shown]:
        if any(re.fullmatch(rule, change.spot) for rule in INFORMS):
            continue
        take_back = apply(change, root)
        if not detector.objects(root, change.spot.startswith("manifest:") and change.spot != "manifest:seed"):
            accepted.append(str(change))
        take_back()
    return accepted


@pytest.mark.slow
def test_every_change_is_detected(tmp_path: Path) -> None:
    assert accepted_changes(buried(), tmp_path / "bundle", set()) == []


@pytest.mark.slow
def test_every_change_of_what_other_arms_have_is_detected(tmp_path: Path) -> None:
    shown = spots(buried(), tmp_path / "buried")
    for tell in FURTHER:
        assert accepted_changes(tell(), tmp_path / tell.__name__, shown) == []
        shown |= spots(tell(), tmp_path / f"{tell.__name__} again")


def test_what_no_bundle_has_needs_no_excuse(tmp_path: Path) -> None:
    shown = spots(buried(), tmp_path / "bundle")
    assert [rule for rule in INFORMS if not any(re.fullmatch(rule, spot) for spot in shown)] == []
