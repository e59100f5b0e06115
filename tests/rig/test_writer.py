"""Opening a bundle: nothing of another run survives in it, and nothing that is no bundle is touched."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from ninelives_rig.evidence.writer import BundleWriter, OutRefused


def test_an_earlier_bundle_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "arms" / "old" / "tables").mkdir(parents=True)
    (tmp_path / "plots").mkdir()
    for name in ("manifest.json", "verdict.json", "report.md", "digests.json", "plots/a.png", "arms/old/arm.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "manifest.json").write_text('{"schema":1,"campaign":"a","engine":"b","seed":"1","arms":[]}')
    (tmp_path / "notes.txt").write_text("mine")
    BundleWriter(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_directory_that_is_no_bundle_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutRefused, match=r"'thesis\.tex'.*--out"):
        BundleWriter(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_manifest_of_something_else_makes_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "my web app"}')
    (tmp_path / "report.md").write_text("mine")
    with pytest.raises(OutRefused, match="not a bundle"):
        BundleWriter(tmp_path)
    assert (tmp_path / "report.md").read_text() == "mine"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutRefused, match="--out"):
        BundleWriter(tmp_path / "out")


def test_two_runs_never_write_to_one_bundle(tmp_path: Path) -> None:
    first = BundleWriter(tmp_path)
    first.manifest({"schema": 1, "campaign": "a", "engine": "b", "seed": "1", "arms": []})
    with pytest.raises(OutRefused, match="another run"):
        BundleWriter(tmp_path)
    assert (tmp_path / "manifest.json").exists()
    first.close()
    BundleWriter(tmp_path).close()


def test_sink_records_are_numbered_in_the_order_of_time(tmp_path: Path) -> None:
    arm = BundleWriter(tmp_path).arm("one")
    arm.sink([{"t": 3, "key": "b"}, {"t": 1, "key": "a"}])
    lines = (arm.root / "witness" / "sink.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line) for line in lines] == [{"t": 1, "key": "a", "seq": 1}, {"t": 3, "key": "b", "seq": 2}]
    arm.sink([])
