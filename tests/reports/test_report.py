"""A report says what the verdict says, with the figures that stand in it, whatever the verdict is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from tests.checkers.bad_stories import CASES, Case
from tests.checkers.make_bundle import Story, write_bundle
from tests.checkers.stories import GOOD, frozen, idempotent
from tests.reports.bundles import BANNED_WORDS, ENVIRONMENT, isolated, judged, qr2, row, sections

from ninelives_reports import render, write
from ninelives_reports.latency import read_waits
from ninelives_reports.load import View
from ninelives_reports.timeline import read_timeline
from ninelives_rig.evidence.seal import seal
from ninelives_rig.judge import judge


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read what would be drawn, and do not draw it: pictures have tests of their own, in `test_drawing.py`."""

    def read_only(view: View, prefix: str = "", *, timelines: bool = True) -> write.Plots:
        for arm in view.arms:
            read_waits(arm)
            read_timeline(arm)
        return write.Plots({}, None, [])

    monkeypatch.setattr(write, "_draw", read_only)


def text_of(root: Path) -> str:
    return render(root).read_text(encoding="utf-8")


def test_the_verdict_comes_first_and_its_figures_are_the_evidence_s(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    report = render(root)
    assert report == root / "report.md"
    text = report.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0] == "# qr2: PASS"
    assert lines[4].startswith("**PASS.** In 2 arms, 8 flows ran while 3 nodes died of SIGKILL")
    assert "(8 completed, 0 lost, 0 never opened), and of 26 effects 0 were repeated" in lines[4]
    part = sections(text)
    assert row(part["Arms"], "before-commit")[3:10] == ["PASS", "6", "6", "0", "0", "0", "2 of 2"]
    sums = part["Effects: what was repeated, and whether it adds up"]
    assert (
        "before-commit: 18 steps completed + 0 against guarantee + 2 documented window + 0 between live workers"
        " = 20 effects; closes"
    ) in sums
    assert "after-commit: 6 steps completed + 0 against guarantee" in sums


def test_latencies_stand_beside_their_counts_and_the_capacity(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    figures = orjson.loads((root / "verdict.json").read_bytes())["arms"][0]
    part = sections(text_of(root))["How fast abandoned flows went on"]
    for measure, name in (("end", "resume_s"), ("next effect", "next_effect_s")):
        expected = [str(figures[name]["n"]), *(f"{figures[name][p]:.3f} s" for p in ("p50", "p95", "p99", "max"))]
        assert row(part, "before-commit", measure)[2:] == expected
    assert row(part, "before-commit", "takeover")[2] == str(figures["resume_s"]["n"])
    assert row(part, "all")[1:] == ["30 s", "1", "1", "4", "64", "2 048", "3", "0.050 s"]


def test_kills_are_listed_with_receipt_and_exit(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    receipt = orjson.loads((root / "arms/before-commit/receipts/k0001.json").read_bytes())
    part = sections(text_of(root))["The kills, proved from both sides"]
    assert row(part, "before-commit", "2") == ["before-commit", "2", "2", "2", "3", "3", "3"]
    assert row(part, "proved kills by role of the node") == ["proved kills by role of the node", "recovery", "worker"]
    listed = row(part, "k0001")
    assert listed[2:10] == [
        receipt["process"],
        str(receipt["pid"]),
        str(receipt["start_time"]),
        "body.returned",
        "1",
        str(receipt["token"]),
        "-9",
        "2",
    ]
    assert all(cell.endswith(" s") for cell in listed[10:])
    assert row(part, "`lease.lost`") == ["`lease.lost`", "0", "–", "–"], "a boundary that nobody hit is listed too"
    assert row(part, "`body.returned`")[1:3] == ["2", "step 1 1, step 2 1"]


def test_doubts_are_accounted_for(tmp_path: Path) -> None:
    text = text_of(isolated(tmp_path / "bundle"))
    assert row(sections(text)["In doubt"], "at_most_once") == ["at_most_once", "1", "2", "1", "1", "0"]
    assert row(sections(text)["Promised counts"], "at_most_once") == ["at_most_once", "0", "0", "2", "1"]


def test_a_promise_that_was_not_kept_shows_both_counts(tmp_path: Path) -> None:
    story = idempotent()
    story.spec["expect"] = {"duplicates_documented": 3, "kills": 2}
    text = text_of(judged(tmp_path / "bundle", story))
    assert text.startswith("# test: FAIL")
    assert row(sections(text)["Promised counts"], "before-commit") == ["before-commit", "**2, promised 3**", "2"]


def test_every_checker_the_environment_and_the_commands_are_there(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    part = sections(text_of(root))
    findings = orjson.loads((root / "verdict.json").read_bytes())["arms"][0]["findings"]
    for checker in {finding["checker"] for finding in findings}:
        assert row(part["Every checker"], f"`{checker}`")[2:] == ["PASS", "PASS"]
    assert row(part["Every checker"], "`in_doubt`")[2:] == ["does not apply", "does not apply"]
    assert row(part["Environment and settings"], "processors usable")[1] == "2 of 4"
    assert row(part["Environment and settings"], "memory")[1] == "8.0 GiB"
    assert row(part["Environment and settings"], "`fsync`")[1] == "on"
    assert "disturb 0." in row(part["Environment and settings"], "before-commit")[1]
    again = part["Judge it again"]
    assert ".venv/bin/ninelives-rig check BUNDLE" in again
    assert "make chaos CAMPAIGN=qr2 SEED=7" in again
    assert str(tmp_path) not in text_of(root), "a report names no path of the machine"


def test_a_zombie_run_no_longer_says_that_there_was_none(tmp_path: Path) -> None:
    part = sections(text_of(judged(tmp_path / "bundle", frozen())))
    assert "zombie" not in part["What this run does not cover"]
    assert "+ 1 zombie = " in part["Effects: what was repeated, and whether it adds up"]


@pytest.mark.parametrize("tell", GOOD, ids=lambda tell: tell.__name__)
def test_good_stories_add_up(tell: Callable[[], Story], tmp_path: Path) -> None:
    text = text_of(judged(tmp_path / "bundle", tell()))
    assert "effects; closes" in text
    assert "DOES NOT CLOSE" not in text
    assert not BANNED_WORDS.search(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_bad_stories_are_reported_with_their_reason(case: Case, tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", case.tell())
    if case.spoil:
        case.spoil(root)
    judge(root)
    text = text_of(root)
    assert f": {case.status.value}\n" in text.splitlines(keepends=True)[0]
    for name in case.findings:
        assert f"`{name}`" in sections(text)["What decided it"]
    # What a finding quotes of the evidence may hold anything.
    figures = [line for line in text.splitlines() if line.startswith("|")]
    assert not BANNED_WORDS.search("\n".join(figures))


def test_a_sum_that_does_not_close_says_so(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    verdict = orjson.loads((root / "verdict.json").read_bytes())
    verdict["arms"][0]["effects"] += 1
    (root / "verdict.json").write_bytes(orjson.dumps(verdict))
    assert "= 20 effects; DOES NOT CLOSE: 21 effects were seen" in text_of(root)


def test_an_aborted_run_proves_nothing_and_says_why(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", idempotent(), manifest={"aborted": "interrupted", "engine": "reference"})
    content = {
        "verdict": "INCONCLUSIVE",
        "reason": "aborted: interrupted",
        "arms": [],
        "engine": "reference",
        "seed": 7,
    }
    (root / "verdict.json").write_bytes(orjson.dumps(content))
    text = text_of(root)
    assert text.startswith("# test: INCONCLUSIVE")
    assert "proves nothing in either direction: aborted: interrupted." in text
    assert row(sections(text)["Arms"], "before-commit")[3:5] == ["not judged", "–"]
    assert not BANNED_WORDS.search(text)


def test_a_run_that_was_never_begun_has_a_report(tmp_path: Path) -> None:
    root = write_bundle(tmp_path / "bundle", manifest={"broken": "NodesBroken: 3 | 4", "arms": []})
    (root / "verdict.json").write_bytes(orjson.dumps({"verdict": "BROKEN", "reason": "broken: it did", "arms": []}))
    text = text_of(root)
    assert text.startswith("# test: BROKEN")
    assert "Believe no figure" in text
    assert "No arm was begun." in text


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"verdict": "PASS", "arms": 5, "findings": [3]}', b"\xff\xfe"])
def test_a_verdict_that_is_missing_or_mangled_stops_no_report(content: bytes | None, tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    (root / "verdict.json").unlink()
    if content is not None:
        (root / "verdict.json").write_bytes(content)
    text = text_of(root)
    assert not BANNED_WORDS.search(text)
    if content is None or b"verdict" not in content:
        assert "it was judged for this report" in text
        assert text.startswith("# qr2: PASS")


def test_an_arm_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    (root / "arms/after-commit/schedule.json").unlink()
    seal(root)
    judge(root)
    text = text_of(root)
    assert text.startswith("# qr2: BROKEN")
    assert "Arm `after-commit` cannot be read: arms/after-commit/schedule.json is missing" in text
    assert row(sections(text)["Arms"], "before-commit")[3] == "PASS"
    assert "after-commit: not measured" in text


def test_without_kills_there_is_no_percentile(tmp_path: Path) -> None:
    story = Story(flows=1)
    story.start(0)
    story.node("worker-1", "worker")
    story.claim("worker-1", 0)
    story.run("worker-1", 0)
    story.close()
    text = text_of(judged(tmp_path / "bundle", story))
    assert row(text, "before-commit", "end")[2:] == ["0", "–", "–", "–", "–"]
    assert "No latency is drawn" in text
    assert "No kill was proved." in text
    assert not BANNED_WORDS.search(text)


def test_what_a_reader_must_know_is_said_at_the_top(tmp_path: Path) -> None:
    settings = {"durability": {"weak": ["fsync is off"]}}
    text = text_of(
        judged(
            tmp_path / "bundle",
            idempotent(),
            dirty=True,
            settings=settings,
            environment=ENVIRONMENT,
            not_applicable={"x": "it cannot", "y": "it cannot"},
        )
    )
    head = text.partition("\n## ")[0]
    assert "**Weak durability.** The server may lose acknowledged commits: fsync is off." in head
    assert "uncommitted changes" in head
    assert "Not run with this engine, since it cannot: `x`, `y`." in head


def test_foreign_text_cannot_break_tables_or_blocks(tmp_path: Path) -> None:
    story = Story("a|b `c`\n## d", flows=1)
    story.spec["name"] = "a|b `c`"
    root = judged(tmp_path / "bundle", story, broken="``` | \n# heading")
    text = text_of(root)
    assert "\n# heading" not in text
    assert "a\\|b" in text


def test_a_directory_that_no_run_wrote_gets_no_report(tmp_path: Path) -> None:
    for name in ("empty", "missing"):
        with pytest.raises(FileNotFoundError, match="is no bundle of evidence; name the directory that the run wrote"):
            render(tmp_path / name)
        (tmp_path / "empty").mkdir(exist_ok=True)
    assert list((tmp_path / "empty").iterdir()) == []


def test_only_pictures_of_an_earlier_report_are_removed(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    (root / "plots").mkdir()
    for name in ("timeline-gone.png", "mine.png", "latency.txt"):
        (root / "plots" / name).write_bytes(b"x")
    render(root)
    assert sorted(path.name for path in (root / "plots").iterdir()) == ["latency.txt", "mine.png"]


def test_a_report_does_not_break_the_seal(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    render(root)
    assert judge(root).status.value == "PASS"
