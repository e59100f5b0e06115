"""The verdicts change when one field of a recorded run does, and nothing unreadable ever passes (bug kind B50)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.bench.recorded_summary import recorded_summary

from ninelives_bench.reach import GOALS, reach
from ninelives_bench.verdicts import judge, status_of
from ninelives_rig.verdict import Status

Summary = dict[str, Any]
NO_SAMPLES = {"n": 0, "p50": None, "p95": None, "p99": None, "p999": None, "max": None}


def judged(summary: Summary, run_id: str | None = None) -> dict[str, str]:
    verdicts = judge(summary, {"run_id": run_id or recorded_summary()["run_id"]})
    return {name: one["verdict"] for name, one in verdicts.items()}


def commits(summary: Summary, name: str = "poisson-5000") -> Summary:
    arm: Summary = next(one for one in summary["b7"]["arms"] if one["name"] == name)
    return arm


def resumes(summary: Summary, **which: object) -> Summary:
    wanted = {"depth": 20, "load_per_s": 0, "cache": "warm"} | which
    arm: Summary = next(one for one in summary["b8"]["arms"] if wanted.items() <= one.items())
    return arm


def flows(summary: Summary, name: str = "closed-3") -> Summary:
    arm: Summary = next(one for one in summary["engine"]["arms"] if one["name"] == name)
    return arm


def slow(milliseconds: float) -> Summary:
    return {"n": 75_000, "p50": 1.0, "p95": 2.0, "p99": milliseconds, "p999": milliseconds, "max": milliseconds}


def few(n: int) -> Summary:
    return {**slow(2.0), "n": n}


def drop_arm(section: str, pick: Callable[[Summary], Summary]) -> Callable[[Summary], None]:
    def change(summary: Summary) -> None:
        summary[section]["arms"].remove(pick(summary))

    return change


def put(pick: Callable[[Summary], Summary], **values: object) -> Callable[[Summary], None]:
    return lambda summary: pick(summary).update(values)


def whole(summary: Summary) -> Summary:
    return summary


def settings(summary: Summary) -> Summary:
    found: Summary = summary["settings"]
    return found


def held_but_empty(summary: Summary) -> None:
    commits(summary).update(achieved_per_s=0.0, response_ms=NO_SAMPLES, service_ms=NO_SAMPLES)


# What is changed; the part whose verdict it changes; what it becomes.
CASES: list[tuple[str, Callable[[Summary], None], str, str]] = [
    ("a refused commit", put(commits, refused=1), "b7", "FAIL"),
    ("a refused commit at another rate", put(lambda s: commits(s, "fixed-10000"), refused=1), "b7", "FAIL"),
    ("p99 just within", put(commits, response_ms=slow(15.0)), "b7", "PASS"),
    ("p99 just beyond", put(commits, response_ms=slow(15.01)), "b7", "FAIL"),
    ("only the service is slow", put(commits, service_ms=slow(900.0)), "b7", "PASS"),
    ("another rate is slow", put(lambda s: commits(s, "poisson-30000"), response_ms={**slow(999.0), "n": 500_000}),
     "b7", "PASS"),
    ("rate just held", put(commits, achieved_per_s=4_900.0), "b7", "PASS"),
    ("rate not held", put(commits, achieved_per_s=4_899.0), "b7", "INCONCLUSIVE"),
    ("slow, and the rate not held", put(commits, achieved_per_s=4_100.0, response_ms=slow(1_271.0)), "b7",
     "INCONCLUSIVE"),
    ("commits unanswered", put(commits, unanswered=3), "b7", "INCONCLUSIVE"),
    ("99 samples", put(commits, response_ms=few(99), seconds=0.01), "b7", "INCONCLUSIVE"),
    ("no samples", held_but_empty, "b7", "INCONCLUSIVE"),
    ("fewer samples than commits", put(commits, response_ms=few(1_000)), "b7", "BROKEN"),
    ("p99 NaN", put(commits, response_ms=slow(float("nan"))), "b7", "BROKEN"),
    ("p99 null", put(commits, response_ms={**slow(2.0), "p99": None}), "b7", "BROKEN"),
    ("p99 negative", put(commits, response_ms=slow(-1.0)), "b7", "BROKEN"),
    ("p99 below p50", put(commits, response_ms=slow(0.5)), "b7", "BROKEN"),
    ("p99 a text", put(commits, response_ms={**slow(2.0), "p99": "2.0"}), "b7", "BROKEN"),
    ("the arm is missing", drop_arm("b7", commits), "b7", "BROKEN"),
    ("an arm of the ladder is missing", drop_arm("b7", lambda s: commits(s, "poisson-1000")), "b7", "BROKEN"),
    ("no arms", lambda s: s["b7"].update(arms=[]), "b7", "BROKEN"),
    ("not measured", put(whole, b7=None), "b7", "BROKEN"),
    ("no saturation", lambda s: s["b7"].update(saturation_per_s=None), "b7", "BROKEN"),
    ("nothing committed", lambda s: s["b7"].update(saturation_per_s=0.0), "b7", "INCONCLUSIVE"),
    ("synchronous_commit off", put(settings, synchronous_commit="off"), "b7", "INCONCLUSIVE"),
    ("synchronous_commit local", put(settings, synchronous_commit="local"), "b8", "INCONCLUSIVE"),
    ("fsync off", put(settings, fsync="off"), "engine", "INCONCLUSIVE"),
    ("fsync unknown", lambda s: s["settings"].pop("fsync"), "b7", "BROKEN"),
    ("a failed resume", put(resumes, failed=1), "b8", "FAIL"),
    ("b8 just within", put(resumes, ms=slow(8.0)), "b8", "PASS"),
    ("b8 just beyond", put(resumes, ms=slow(8.01)), "b8", "FAIL"),
    ("b8 slow at another depth", put(lambda s: resumes(s, depth=20_000), ms=slow(8.01)), "b8", "FAIL"),
    ("b8 slow from a cold cache", put(lambda s: resumes(s, cache="cold"), ms=slow(99.0)), "b8", "PASS"),
    ("b8 read nothing", put(resumes, rows_read=0), "b8", "INCONCLUSIVE"),
    ("b8 99 samples", put(resumes, ms=few(99)), "b8", "INCONCLUSIVE"),
    ("b8 no samples", put(resumes, ms=NO_SAMPLES), "b8", "INCONCLUSIVE"),
    ("b8 load not held", put(lambda s: resumes(s, load_per_s=10_000), achieved_load_per_s=9_000.0), "b8",
     "INCONCLUSIVE"),
    ("b8 arm missing", drop_arm("b8", resumes), "b8", "BROKEN"),
    ("b8 NaN", put(resumes, ms=slow(float("nan"))), "b8", "BROKEN"),
    ("a flow failed", put(flows, failed=1), "engine", "FAIL"),
    ("no flow ended", put(flows, flows=0), "engine", "INCONCLUSIVE"),
    ("no steps", lambda s: s["engine"].update(steps_per_s=0.0), "engine", "INCONCLUSIVE"),
    ("engine not measured", put(whole, engine=None), "engine", "BROKEN"),
    ("no latency", lambda s: s["engine"].update(latency_50_ms=None), "engine", "BROKEN"),
    ("claims not measured", put(whole, claims=None), "overall", "BROKEN"),
    ("unfinished", put(whole, unfinished=True), "overall", "BROKEN"),
    ("another schema", put(whole, schema=2), "overall", "BROKEN"),
    ("no schema", lambda s: s.pop("schema"), "overall", "BROKEN"),
    ("no run id", put(whole, run_id=""), "overall", "BROKEN"),
]  # fmt: skip


def test_the_recorded_run_passes() -> None:
    assert set(judged(recorded_summary()).values()) == {"PASS"}


@pytest.mark.parametrize(("change", "part", "verdict"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_one_field_changes_the_verdict(change: Callable[[Summary], None], part: str, verdict: str) -> None:
    summary = recorded_summary()
    change(summary)
    found = judged(summary)
    assert found[part] == verdict
    # What does not pass in one part does not pass as a whole.
    assert found["overall"] == verdict


def test_results_of_another_run_are_broken() -> None:
    assert set(judged(recorded_summary(), run_id="another").values()) == {"BROKEN"}


@pytest.mark.parametrize("nothing", [None, [], "", 3, {}])
def test_what_is_no_summary_is_broken(nothing: object) -> None:
    assert status_of(judge(nothing, {"run_id": "x"})) is Status.BROKEN
    assert status_of(judge(recorded_summary(), nothing)) is Status.BROKEN


@pytest.mark.parametrize("verdicts", [{}, {"overall": None}, {"overall": {"verdict": "FINE"}}])
def test_no_verdict_is_broken(verdicts: Summary) -> None:
    assert status_of(verdicts) is Status.BROKEN


def test_a_broken_part_outweighs_a_failed_one() -> None:
    summary = recorded_summary()
    resumes(summary)["failed"] = 1
    summary["engine"] = None
    assert judged(summary)["overall"] == "BROKEN"


GATING = {
    "arms": {"offered_per_s", "achieved_per_s", "seconds", "refused", "unanswered", "depth", "load_per_s", "rows_read",
             "failed", "flows", "steps_per_flow", "n", "p50", "p95", "p99", "p999", "max"},
    "part": {"saturation_per_s", "steps_per_s", "flows_per_s", "n", "p50", "p95", "p99", "p999", "max"},
}  # fmt: skip


def gating_leaves(summary: Summary) -> Iterator[tuple[str | int, ...]]:
    """Every figure of b7, b8 and engine that a verdict rests on, by its path."""

    def walk(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
        if isinstance(value, dict):
            for key, one in value.items():
                if key not in ("service_ms", "batch", "claim_ms"):
                    yield from walk(one, (*path, key))
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from walk(one, (*path, number))
        elif path[-1] in GATING["arms" if "arms" in path else "part"] and value is not None:
            yield path

    for part in ("b7", "b8", "engine"):
        yield from walk(summary[part], (part,))


@pytest.mark.parametrize("poison", [float("nan"), None, -1, float("inf"), True, "1"])
def test_no_poisoned_figure_that_gates_ever_passes(poison: object) -> None:
    recorded = recorded_summary()
    paths = list(gating_leaves(recorded))
    assert len(paths) > 200
    passed = []
    for path in paths:
        summary = copy.deepcopy(recorded)
        place: Any = summary
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = poison
        if judged(summary)["overall"] == "PASS":
            passed.append(path)
    assert passed == []


def test_reach_tells_what_was_reached_and_survives_what_is_missing() -> None:
    rows = reach(recorded_summary())
    assert [row["figure"] for row in rows] == [goal.figure for goal in GOALS]
    by_figure = {row["figure"]: row for row in rows}
    assert by_figure["response p99 at 5 000 commits/s, ms"] == {
        "figure": "response p99 at 5 000 commits/s, ms", "limit": 4, "sense": "most", "reached": 2.6, "held": True,
    }  # fmt: skip
    without: list[Summary] = [{}, {"b7": None, "b8": {"arms": []}, "claims": {"arms": [{"parked": 10}]}}]
    for empty in without:
        assert all(row["reached"] is None and row["held"] is False for row in reach(empty))


def test_a_miss_is_told_and_changes_no_verdict() -> None:
    summary = recorded_summary()
    summary["b7"]["saturation_per_s"] = 10.0
    row = next(row for row in reach(summary) if row["figure"].startswith("saturation of the committer over 10 s"))
    assert row["reached"] == 10.0 and row["held"] is False
    assert judged(summary)["overall"] == "PASS"


def test_nan_is_reached_by_nobody() -> None:
    summary = recorded_summary()
    commits(summary)["response_ms"]["p99"] = float("nan")
    row = next(row for row in reach(summary) if row["figure"] == "response p99 at 5 000 commits/s, ms")
    assert row["reached"] is None and row["held"] is False
