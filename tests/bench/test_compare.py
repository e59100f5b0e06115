"""Two runs side by side: refused with every reason where they are not comparable, else a ratio, an interval, a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bench.recorded_folder import write_folder
from tests.bench.recorded_summary import Record, recorded_manifest, recorded_summary

from ninelives_bench.comparable import reasons_against
from ninelives_bench.compare import COMPARABLE, REFUSED, Comparison, compare, compare_folders, describe
from ninelives_bench.intervals import (
    Interval,
    blocks_by_order,
    blocks_by_time,
    compare_sides,
    median_side,
    percentile_side,
    rate_side,
)
from ninelives_reports.bench_folder import BenchFolder, load_folder


def written(root: Path, run_id: str, *, seed: int = 1, slowdown: float = 1.0, **changes: Any) -> Path:
    """Write a run of a few arms; nothing here depends on all of them."""
    summary, manifest = recorded_summary() | {"run_id": run_id}, recorded_manifest() | {"run_id": run_id}
    for part in ("b7", "engine", "b8"):
        arms = summary[part]["arms"]
        summary[part]["arms"] = [*arms[1:4], *(arm for arm in arms if arm.get("name") == "open-50")]
    return write_folder(root / run_id, summary=summary | changes, manifest=manifest, seed=seed, slowdown=slowdown)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three runs: two that are alike, and one with every wait half as long again."""
    root = tmp_path_factory.mktemp("runs")
    return {
        "one": written(root, "one"),
        "like": written(root, "like", seed=2),
        "slow": written(root, "slow", seed=3, slowdown=1.5),
    }


def words(found: Comparison) -> dict[str, str]:
    return {one.name: one.word for one in found.figures}


def test_a_slower_run_is_called_slower_and_seen_from_it_the_other_is_faster(runs: dict[str, Path]) -> None:
    one, slow = load_folder(runs["one"]), load_folder(runs["slow"])
    there, back = words(compare_folders(one, slow)), words(compare_folders(slow, one))
    for name in ("b7 poisson-5000 response p50, ms", "b8 20_warm_0 p50, ms", "engine open-50 response p50, ms",
                 "b7 saturation-10s, commits/s"):  # fmt: skip
        assert (there[name], back[name]) == ("slower", "faster"), name
    assert there["b7 poisson-5000 client_us"] == "no interval"


def test_runs_that_are_alike_show_no_difference_but_by_chance(runs: dict[str, Path]) -> None:
    found = words(compare_folders(load_folder(runs["one"]), load_folder(runs["like"])))
    judged = [word for word in found.values() if word != "no interval"]
    assert len(judged) > 12
    assert judged.count("no difference shown") >= 0.75 * len(judged)


def test_the_same_folders_give_the_same_text(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(runs["one"], runs["slow"]) == COMPARABLE
    first = capsys.readouterr()
    assert compare(runs["one"], runs["slow"]) == COMPARABLE
    assert capsys.readouterr() == first
    assert first.err == "" and "B / A" in first.out and "FORCED" not in first.out


def test_the_same_run_is_refused_and_shown_only_by_force(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(runs["one"], runs["one"]) == REFUSED
    refused = capsys.readouterr()
    assert "the same run" in refused.err and "--force" in refused.err and refused.out == ""
    assert compare(runs["one"], runs["one"], force=True) == REFUSED
    forced = capsys.readouterr()
    assert forced.out.startswith("FORCED") and "the same run" in forced.err


def test_a_folder_without_results_is_refused(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(runs["one"], tmp_path) == REFUSED
    assert "no summary.json" in capsys.readouterr().err


def _against(change: Record, manifest: Record) -> list[str]:
    a = BenchFolder(Path("a"), recorded_summary(), recorded_manifest(), {})
    b_manifest = recorded_manifest() | {"run_id": "b"} | manifest
    b = BenchFolder(Path("b"), recorded_summary() | {"run_id": "b"} | change, b_manifest, {})
    return reasons_against(a, b)


_OTHER_MACHINE = {"environment": recorded_manifest()["environment"] | {"cpus_usable": 8, "cpu_model": "other"}}


@pytest.mark.parametrize(("change", "manifest", "reason"), [
    ({"schema": 2}, {}, "B is of schema 2"),
    ({"quick": True}, {}, "A is a full run, B a quick run"),
    ({"dirty": True}, {}, "B was measured with uncommitted changes"),
    ({"verdicts": {}}, {}, "B did not come to its end"),
    ({"unfinished": True}, {}, "B did not come to its end"),
    ({"verdicts": {"overall": {"verdict": "BROKEN"}}}, {}, "B was judged BROKEN"),
    ({"run_id": recorded_summary()["run_id"]}, {"run_id": recorded_summary()["run_id"]}, "the same run"),
    ({"settings": recorded_summary()["settings"] | {"fsync": "off"}}, {}, "fsync is on in A, off in B"),
    ({"settings": recorded_summary()["settings"] | {"server_version": "16.4"}}, {}, "PostgreSQL is 18 in A, 16 in B"),
    ({}, _OTHER_MACHINE, "usable processors: 2 in A, 8 in B"),
    ({}, _OTHER_MACHINE, "processor: Example 2.5 GHz in A, other in B"),
    ({}, {"environment": {}}, "usable processors: 2 in A, unknown in B"),
    ({}, {"run_id": "c"}, "the summary and the manifest of B are of different runs"),
    ({}, {"plan": {"b7": {"arm_s": 2.0}}}, "other plans were carried out"),
    ({"claims": None}, {}, "claims: measured in A only: 10, 10000, 1000000"),
    ({"takeover": None}, {}, "takeover was measured in A only"),
    ({"b7": recorded_summary()["b7"] | {"arms": recorded_summary()["b7"]["arms"][1:]}}, {}, "only: poisson-1000"),
])  # fmt: skip
def test_each_reason_against_a_comparison_is_told(change: Record, manifest: Record, reason: str) -> None:
    assert any(reason in one for one in _against(change, manifest)), _against(change, manifest)


def test_all_reasons_are_told_at_once_and_none_where_there_is_none() -> None:
    assert _against({}, {}) == []
    assert _against({"started_at": "2027-01-01T00:00:00+00:00", "seed": 2, "commit": "f" * 40}, {}) == []
    assert len(_against({"quick": True, "dirty": True, "schema": 3}, _OTHER_MACHINE)) == 5


def test_null_arms_and_missing_samples_leave_figures_out_or_without_interval() -> None:
    summary = recorded_summary() | {"run_id": "b"}
    summary["b7"]["arms"][0] |= {"response_ms": {"n": 0, "p50": None, "p99": None}, "client_us": None}
    a = BenchFolder(Path("a"), recorded_summary(), recorded_manifest(), {})
    b = BenchFolder(Path("b"), summary, recorded_manifest() | {"run_id": "b"}, {})
    found = compare_folders(a, b)
    assert found.reasons == []
    assert not any("poisson-1000 response" in one.name or "poisson-1000 client" in one.name for one in found.figures)
    assert {one.word for one in found.figures if not one.name.startswith("sustained")} == {"no interval"}
    assert describe(found)[0].startswith("figure")


def test_an_interval_holds_the_true_ratio_nearly_always() -> None:
    held = 0
    for seed in range(25):
        random = np.random.default_rng(seed)
        at_s = np.sort(random.uniform(0, 15, 6_000))
        blocks = blocks_by_time(at_s, 15.0)
        sides = [percentile_side(factor * random.lognormal(0, 0.5, 6_000), blocks, 0.99, number)
                 for number, factor in enumerate((1.0, 1.1))]  # fmt: skip
        interval = compare_sides(*sides)
        assert interval is not None
        held += interval.low <= 1.1 <= interval.high
    assert held >= 21


def test_many_samples_are_rounded_by_less_than_their_interval() -> None:
    values = np.random.default_rng(1).lognormal(0, 0.5, 200_000)
    side = percentile_side(values, blocks_by_order(len(values)), 0.99, 1)
    assert side is not None
    assert side.value == np.sort(values)[198_000 - 1]
    assert abs(float(np.median(side.replicates)) / side.value - 1) < 0.01


def test_too_little_gives_no_interval() -> None:
    few = np.ones(50)
    assert percentile_side(few, blocks_by_order(50), 0.99, 1) is None
    assert percentile_side(np.ones(5_000), np.zeros(5_000, dtype=np.int64), 0.5, 1) is None
    assert rate_side(np.empty(0), 10.0, 1) is None
    assert median_side(np.ones(3), 1) is None
    assert compare_sides(None, None) is None


def test_equal_sides_have_the_ratio_one() -> None:
    side = median_side(np.arange(1.0, 30.0), 1)
    assert compare_sides(side, side) == Interval(1.0, 1.0, 1.0)
