"""What is published stands on its own: text, pictures and the further campaigns, beside FlowX's record."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checkers.make_bundle import Story
from tests.checkers.stories import at_most_once
from tests.reports.bundles import PICTURE, isolated, judged, qr2, row, sections
from typer.testing import CliRunner

from ninelives_reports import publish, render
from ninelives_reports.load import load_view
from ninelives_reports.published import FLOWX_CAPACITY, FLOWX_QR2
from ninelives_rig.commands import app


def naive(root: Path) -> Path:
    """The negative control: an engine without a journal that begins again at the first step."""
    story = Story("idempotent.before-commit", flows=1, journal=False)
    story.start(0)
    story.node("worker-1", "worker")
    story.node("recovery-1", "recovery")
    story.step("worker-1", 0, 1)
    story.apply("worker-1", 0, 2)
    story.kill("worker-1", 0, 2, boundary="workload.returned")
    story.run("recovery-1", 0)
    story.close()
    return judged(root, story, campaign="isolated", engine="naive")


def two_arms_of_one_effect(root: Path) -> Path:
    """An isolated campaign with both positions of `at_most_once`."""
    before, after = at_most_once(), at_most_once()
    before.spec["name"], after.spec["name"] = "at_most_once.before-commit", "at_most_once.after-commit"
    return judged(root, before, after, campaign="isolated")


def test_published_text_has_its_pictures_beside_it_and_the_further_campaigns_inside(tmp_path: Path) -> None:
    into = tmp_path / "published"
    others = [two_arms_of_one_effect(tmp_path / "isolated"), naive(tmp_path / "naive")]
    (into / "QR2").mkdir(parents=True)
    (into / "QR2" / "timeline-gone.png").write_bytes(b"x")
    path = publish(qr2(tmp_path / "bundle"), "QR2", into=into, others=others)
    assert path == into / "QR2.md"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# qr2: PASS")
    part = sections(text)
    ours = part["Beside it: isolated with engine reference: PASS"]
    assert row(ours, "at_most_once.before-commit", "1") == ["at_most_once.before-commit", "1", "2", "1", "1", "0"]
    control = part["Beside it: isolated with engine naive: FAIL"]
    assert "wrong on purpose" in control
    assert "1 against guarantee + 1 documented window" in control
    pictures = sorted(name for _, name in PICTURE.findall(text))
    assert len(pictures) == len(set(pictures)) == 5
    assert pictures == sorted(f"QR2/{found.name}" for found in (into / "QR2").iterdir())
    assert str(tmp_path) not in text


def test_publishing_again_changes_no_byte(tmp_path: Path) -> None:
    bundle, other = qr2(tmp_path / "bundle"), isolated(tmp_path / "isolated")
    for into in ("one", "two"):
        publish(bundle, "QR2", into=tmp_path / into, others=[other])
    first = sorted(path for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(first) == 5
    for path in first:
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


def test_the_comparison_names_both_sides(tmp_path: Path) -> None:
    text = render(qr2(tmp_path / "bundle")).read_text(encoding="utf-8")
    part = sections(text)["Beside what others published"]
    assert row(part, "never opened")[1:] == ["0", "0", "61", "57"]
    assert row(part, "resume p99")[3:] == ["32.9 s", "32.6 s"]
    assert row(part, "repeated in the documented window")[1:] == ["2", "0", "260", "186"]
    assert row(part, "lease TTL")[1:] == ["30 s"] * 4
    assert row(part, "flows left behind by each kill")[1:] == ["1.5", "1.0", "5.0", "5.2"]
    assert "4 logical cores" in part and "PostgreSQL 16.13" in part
    assert "2 usable cores, load 0.5 before the run, PostgreSQL 18.4" in part


def test_isolated_is_compared_with_peers_and_the_control_with_nobody(tmp_path: Path) -> None:
    text = render(two_arms_of_one_effect(tmp_path / "bundle")).read_text(encoding="utf-8")
    part = sections(text)["Beside what others published"]
    ours = row(part, "ninelives, `at_most_once`")
    assert ours[1:3] == ["0 (2 in doubt, settled)"] * 2
    assert row(part, "FlowX (published; TTL 10 s, scan 2 s)")[1:3] == ["20", "0"]
    assert row(part, "Restate")[1:] == ["20", "0", "0.58 s"]
    control = render(naive(tmp_path / "naive")).read_text(encoding="utf-8")
    assert "Beside what others published" not in control


def test_the_record_of_flowx_adds_up() -> None:
    figures = {label: [int(one.replace(" ", "")) for one in theirs] for label, *theirs in FLOWX_QR2[:11]}
    for arm in (0, 1):
        assert figures["completed"][arm] + figures["never opened"][arm] == figures["flows asked for"][arm]
        repeats = figures["repeated in the documented window"][arm]
        assert 3 * figures["completed"][arm] + repeats == figures["effects"][arm]
        kills = figures["nodes killed, all proved by exit status"][arm]
        each = {label: theirs for label, *theirs in FLOWX_QR2}["flows left behind by each kill"][arm]
        assert each == f"{figures['flows recovered'][arm] / kills:.1f}"
    resume = {label: theirs for label, *theirs in FLOWX_QR2}["resume p99"]
    assert FLOWX_CAPACITY[0][-1] == f"{resume[0].removesuffix(' s')} / {resume[1]}"


@pytest.mark.parametrize("name", ["", "../QR2", "a/b", ".hidden", "QR 2"])
def test_a_name_that_is_no_plain_word_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot name a report"):
        publish(qr2(tmp_path / "bundle"), name, into=tmp_path / "published")
    assert not (tmp_path / "published").exists()


def test_the_seal_names_the_bundle_that_was_reported(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    seal = load_view(root).seal
    assert seal is not None and len(seal) == 64
    assert f"sha256 {seal}" in sections(render(root).read_text(encoding="utf-8"))["Judge it again"]


def test_the_command_writes_the_report_and_the_published_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bundle, other = qr2(tmp_path / "bundle"), naive(tmp_path / "naive")
    done = CliRunner().invoke(app, ["report", str(bundle), "--publish", "QR2", "--with", str(other)])
    assert done.exit_code == 0, done.output
    assert (bundle / "report.md").is_file()
    assert "engine naive: FAIL" in (tmp_path / "reports/published/QR2.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing"], "missing is no bundle of evidence; name the directory that the run wrote"),
        (["bundle", "--with", "bundle"], "give --publish NAME too"),
        (["bundle", "--publish", "a/b"], "cannot name a report"),
        (["bundle", "--publish", "QR2", "--with", "missing"], "missing is no bundle of evidence"),
    ],
)
def test_the_command_says_what_to_do_when_it_cannot(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    qr2(tmp_path / "bundle")
    done = CliRunner().invoke(app, ["report", *arguments])
    assert done.exit_code == 3
    assert said in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "reports/published/QR2.md").exists()
