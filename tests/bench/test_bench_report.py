"""Benchmark reports: every file is there, the same bytes each time, and what is absent is said and not drawn."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bench.recorded_folder import write_folder
from tests.bench.recorded_summary import Record, empty, recorded_manifest, recorded_summary

from ninelives_bench.verdicts import judge
from ninelives_reports.bench_b7 import write_b7
from ninelives_reports.bench_b8 import write_b8
from ninelives_reports.bench_folder import FolderUnreadable, load_folder
from ninelives_reports.bench_report import publish_bench_report, write_bench_report

_PICTURE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
_PLOTS = {
    "B7/flows.png", "B7/rates.png", "B7/sustained.png", "B7/throughput.png", "B8/claims.png", "B8/depth.png",
}  # fmt: skip
_AGAIN = """
import pathlib, sys
from ninelives_reports.bench_report import write_bench_report
write_bench_report(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full result folder."""
    return write_folder(tmp_path_factory.mktemp("bench") / "full")


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def reported(tmp_path: Path, summary: Record, *, samples: bool = False) -> dict[str, bytes]:
    root = write_folder(tmp_path / "run", summary=summary, samples=samples)
    write_bench_report(root, tmp_path / "report")
    return contents(tmp_path / "report")


def test_the_recorded_run_is_one_that_passes() -> None:
    verdicts = judge(recorded_summary(), recorded_manifest())
    assert {name: one["verdict"] for name, one in verdicts.items()} == dict.fromkeys(verdicts, "PASS")


def test_both_texts_and_every_plot_that_they_show_are_written(folder: Path, tmp_path: Path) -> None:
    write_bench_report(folder, tmp_path / "report")
    files = contents(tmp_path / "report")
    assert set(files) == {"B7.md", "B8.md", *_PLOTS}
    shown = [name for text in ("B7.md", "B8.md") for name in _PICTURE.findall(files[text].decode())]
    assert sorted(shown) == sorted(_PLOTS)
    for name in _PLOTS:
        assert files[name].startswith(b"\x89PNG\r\n\x1a\n") and len(files[name]) > 10_000, name


def test_the_same_folder_gives_the_same_bytes_in_another_process(folder: Path, tmp_path: Path) -> None:
    publish_bench_report(folder, tmp_path / "here")
    style = tmp_path / "matplotlibrc"
    style.write_text("figure.facecolor: black\nfont.size: 30\n")
    environment = {**os.environ, "MPLBACKEND": "nonsense", "MATPLOTLIBRC": str(style), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", _AGAIN, str(folder), str(tmp_path / "there")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_the_verdict_comes_first_and_each_limit_says_whether_it_held(folder: Path) -> None:
    found = load_folder(folder)
    for text in (write_b7(found, {}), write_b8(found, {})):
        assert text.index("**PASS.**") < text.index("\n## ")
        assert "| **no** |" in text and "| yes |" in text and "| not measured |" in text
        assert "nan" not in text.lower().split() and "None" not in text


@pytest.mark.parametrize("verdict", ["FAIL", "INCONCLUSIVE", "BROKEN"])
def test_every_verdict_is_told_with_its_reasons(tmp_path: Path, verdict: str) -> None:
    summary = recorded_summary()
    summary["verdicts"]["b7"] = {"verdict": verdict, "reasons": [f"{verdict}: the | rate"]}
    text = write_b7(load_folder(write_folder(tmp_path / "run", summary=summary, samples=False)), {})
    assert text.startswith(f"# B7, a durable step commit: {verdict}\n")
    assert f"- {verdict}: the | rate" in text


def _without(*path: str) -> Callable[[Record], None]:
    def change(summary: Record) -> None:
        parent: Any = summary
        for name in path[:-1]:
            parent = parent[name]
        del parent[path[-1]]

    return change


def _nothing_answered(summary: Record) -> None:
    for arm in summary["b7"]["arms"]:
        arm |= {"achieved_per_s": 0.0, "response_ms": empty(), "service_ms": empty(), "client_us": None,
                "server_us": None, "wal_bytes": None, "rows_per_batch": None}  # fmt: skip
    for arm in summary["engine"]["arms"]:
        arm |= {"response_ms": empty(), "flows": 0, "client_us_per_step": None}
    for arm in [*summary["b8"]["arms"], *summary["death"]["arms"]]:
        arm["ms"] = empty()
    for arm in summary["claims"]["arms"]:
        arm |= {"empty_ms": empty(), "due_ms": empty()}
    for window in summary["sustained"]["windows"]:
        window |= {"n": 0, "p50": None, "p99": None, "max": None}


_DRAWN = ["b7", "engine", "b8", "claims", "sustained"]
_PARTS = [*_DRAWN, "reference", "takeover", "renewal", "death", "reach", "verdicts", "settings"]


@pytest.mark.parametrize("part", _PARTS)
def test_an_absent_part_is_said_and_not_a_crash(tmp_path: Path, part: str) -> None:
    summary = recorded_summary()
    _without(part)(summary)
    found = load_folder(write_folder(tmp_path / "run", summary=summary, samples=False))
    texts = write_b7(found, {}) + write_b8(found, {})
    if part == "verdicts":
        assert texts.startswith("# B7, a durable step commit: no verdict\n")
    elif part not in ("reference", "settings"):
        assert "No data" in texts


@pytest.mark.parametrize("part", _DRAWN)
def test_a_part_that_is_absent_is_not_drawn(tmp_path: Path, part: str) -> None:
    summary = recorded_summary()
    _without(part)(summary)
    files = reported(tmp_path, summary)
    pictures = {name for text in ("B7.md", "B8.md") for name in _PICTURE.findall(files[text].decode())}
    assert pictures == {name for name in files if name.endswith(".png")}
    absent = {"b7": "B7/rates.png", "engine": "B7/flows.png", "b8": "B8/depth.png", "claims": "B8/claims.png",
              "sustained": "B7/sustained.png"}  # fmt: skip
    assert absent[part] not in files


def test_parts_that_are_null_read_like_absent_ones(tmp_path: Path) -> None:
    summary = recorded_summary() | dict.fromkeys(_PARTS)
    files = reported(tmp_path, summary)
    assert set(files) == {"B7.md", "B8.md"} and b"None" not in files["B7.md"] + files["B8.md"]


def test_arms_without_samples_are_dashes_and_draw_nothing(tmp_path: Path) -> None:
    summary = recorded_summary()
    _nothing_answered(summary)
    files = reported(tmp_path, summary)
    assert {name for name in files if name.endswith(".png")} == {"B7/throughput.png"}
    assert "| 0 | – | – | – | – | – | – |" in files["B7.md"].decode()


def test_an_almost_empty_summary_is_reported(tmp_path: Path) -> None:
    files = reported(tmp_path, {"schema": 1, "quick": True, "verdicts": {}})
    assert set(files) == {"B7.md", "B8.md"}
    assert b"A quick run" in files["B7.md"] and b"No data" in files["B8.md"]


def test_a_plot_of_an_earlier_report_does_not_stay(tmp_path: Path) -> None:
    stale = tmp_path / "report" / "B7" / "sustained.png"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"earlier")
    reported(tmp_path, {"schema": 1})
    assert not stale.exists()


def test_a_folder_without_a_summary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderUnreadable, match=r"summary\.json"):
        write_bench_report(tmp_path, tmp_path / "report")
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(FolderUnreadable):
        write_bench_report(tmp_path, tmp_path / "report")


@pytest.mark.parametrize(("change", "reason"), [
    ({"quick": True}, "quick"), ({"dirty": True}, "uncommitted"), ({"schema": 2}, "schema"), ({"verdicts": {}}, "end"),
])  # fmt: skip
def test_what_proves_nothing_is_not_published(tmp_path: Path, change: Record, reason: str) -> None:
    root = write_folder(tmp_path / "run", summary=copy.deepcopy(recorded_summary()) | change, samples=False)
    with pytest.raises(ValueError, match=reason):
        publish_bench_report(root, tmp_path / "published")
    assert not (tmp_path / "published").exists()
