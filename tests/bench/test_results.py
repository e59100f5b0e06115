"""The result folder: nothing of an older or unfinished run can be taken for a result (bug kind B50)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no stubs
import pytest
from tests.bench.recorded_summary import recorded_summary
from typer.testing import CliRunner

from ninelives_bench import suite_run
from ninelives_bench.ground import Ground
from ninelives_bench.results import MANIFEST, SUMMARY, ResultFolder, ResultsRefused, read_results
from ninelives_bench.samples import SampleStore
from ninelives_bench.suite import Plan
from ninelives_bench.suite_commands import app
from ninelives_bench.suite_interruption import Interruption
from ninelives_bench.suite_run import conclude, measure_all
from ninelives_bench.verdicts import SECTIONS


def write_run(root: Path) -> dict[str, Any]:
    folder = ResultFolder.begin(root)
    summary = recorded_summary()
    folder.samples.save("some", {"ms": np.arange(3.0)})
    folder.write_manifest({"run_id": summary["run_id"]})
    folder.write_summary(summary)
    return summary


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    summary = write_run(tmp_path / "out")
    assert read_results(tmp_path / "out") == (summary, {"run_id": summary["run_id"]})


def test_the_results_of_an_older_run_are_gone_before_anything_is_measured(tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / "report").mkdir()
    (tmp_path / "notes.txt").write_text("the user's own")
    ResultFolder.begin(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "precious").write_text("x")
    with pytest.raises(ResultsRefused, match="holds other files"):
        ResultFolder.begin(tmp_path)
    assert (tmp_path / "samples" / "precious").exists()


def test_nan_is_refused_before_it_becomes_null(tmp_path: Path) -> None:
    folder = ResultFolder.begin(tmp_path)
    with pytest.raises(ValueError, match=r"summary\.b7\.arms\[0\]\.p99 is nan"):
        folder.write_summary({"b7": {"arms": [{"p99": float("nan")}]}})
    assert not (tmp_path / SUMMARY).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_summary_that_cannot_be_read_is_broken(tmp_path: Path, text: str) -> None:
    write_run(tmp_path)
    (tmp_path / SUMMARY).write_text(text)
    with pytest.raises(ResultsRefused):
        read_results(tmp_path)
    assert CliRunner().invoke(app, ["judge", str(tmp_path)]).exit_code == 3


def test_judge_gives_the_exit_code_of_the_verdict(tmp_path: Path) -> None:
    summary = write_run(tmp_path)
    assert CliRunner().invoke(app, ["judge", str(tmp_path)]).exit_code == 0
    summary["b7"]["arms"][0]["refused"] = 1
    (tmp_path / SUMMARY).write_text(json.dumps(summary))
    assert CliRunner().invoke(app, ["judge", str(tmp_path)]).exit_code == 1
    summary["b7"]["arms"][0]["refused"] = 0
    summary["settings"]["synchronous_commit"] = "off"
    (tmp_path / SUMMARY).write_text(json.dumps(summary))
    assert CliRunner().invoke(app, ["judge", str(tmp_path)]).exit_code == 2
    (tmp_path / MANIFEST).write_text('{"run_id": "another"}')
    assert CliRunner().invoke(app, ["judge", str(tmp_path)]).exit_code == 3


def test_only_a_whole_run_is_published(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    into = ["--into", str(tmp_path / "published")]
    assert CliRunner().invoke(app, ["publish", str(tmp_path / "run"), *into]).exit_code == 0
    assert (tmp_path / "published" / "B7.md").exists() and (tmp_path / "published" / "B8.md").exists()
    for folder in (tmp_path, tmp_path / "nothing"):
        assert CliRunner().invoke(app, ["publish", str(folder), *into]).exit_code == 3


def test_an_unknown_section_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", "--only", "b9", "--out", str(tmp_path)])
    assert done.exit_code == 3
    assert "no section b9" in done.output


def test_a_measurement_that_fails_leaves_the_others_and_is_told(
    monkeypatch: pytest.MonkeyPatch, ground: Ground, samples: SampleStore, tiny_plan: Plan
) -> None:
    def choose(section: str) -> suite_run.Measure:
        def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
            if section == "b8":
                raise RuntimeError("out of luck")
            return dict(recorded_summary()[section])

        return measure

    monkeypatch.setattr(suite_run, "_measurement", choose)
    measured = measure_all(ground, tiny_plan, samples, Interruption())
    assert measured["b8"] is None
    assert measured["missing"] == [{"name": "b8", "why": "RuntimeError: out of luck"}]
    identity = {key: value for key, value in recorded_summary().items() if key not in SECTIONS}
    summary = conclude({**identity, **measured}, {"run_id": identity["run_id"]})
    assert {name: one["verdict"] for name, one in summary["verdicts"].items()} == {
        "b7": "PASS", "b8": "BROKEN", "engine": "PASS", "overall": "BROKEN",
    }  # fmt: skip
    assert summary["b7"]["pgbench_per_s"] == summary["reference"]["pgbench"]["per_s"]


def test_an_error_over_an_interruption_does_not_hide_it(
    monkeypatch: pytest.MonkeyPatch, ground: Ground, samples: SampleStore, tiny_plan: Plan
) -> None:
    def measure(ground: Ground, plan: Plan, samples: SampleStore) -> dict[str, Any]:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("the connection was lost") from None
        return {}

    monkeypatch.setattr(suite_run, "_measurement", lambda section: measure)
    before = signal.getsignal(signal.SIGTERM)
    with Interruption() as interruption, pytest.raises(KeyboardInterrupt):
        measure_all(ground, tiny_plan, samples, interruption)
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_interrupted_run_leaves_no_summary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_run(tmp_path)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suite_run, "open_ground", interrupted)
    assert CliRunner().invoke(app, ["run", "--quick", "--out", str(tmp_path)]).exit_code == 2
    assert not (tmp_path / SUMMARY).exists()


def test_samples_keep_their_columns(samples: SampleStore) -> None:
    samples.save("arm-1", {"due_s": np.arange(4.0), "answered": np.array([True, True, False, True])})
    table = pq.read_table(samples.folder / "arm-1.parquet")
    assert table.column_names == ["due_s", "answered"] and table.num_rows == 4
    assert samples.saved == {"arm-1": 4}


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b"])
def test_a_name_that_is_no_file_name_is_refused(samples: SampleStore, name: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        samples.save(name, {"a": np.zeros(1)})


def test_samples_are_never_overwritten_or_ragged(samples: SampleStore) -> None:
    samples.save("one", {"a": np.zeros(1)})
    with pytest.raises(ValueError, match="saved before"):
        samples.save("one", {"a": np.zeros(1)})
    with pytest.raises(ValueError, match="different lengths"):
        samples.save("two", {"a": np.zeros(1), "b": np.zeros(2)})
