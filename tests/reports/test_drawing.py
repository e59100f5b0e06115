"""Pictures are drawn without a display, are the same bytes every time, and can be read."""

from __future__ import annotations

import io
import itertools
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.image import imread
from matplotlib.text import Text
from tests.checkers.make_bundle import Story
from tests.checkers.test_speed import large_story
from tests.reports.bundles import PICTURE, judged, qr2

from ninelives_reports import canvas, latency, render, timeline
from ninelives_reports.canvas import Figure
from ninelives_reports.latency import Waits, draw_latency
from ninelives_reports.timeline import Lane, Timeline, draw_timeline

_RENDER = "import pathlib, sys, ninelives_reports; ninelives_reports.render(pathlib.Path(sys.argv[1]))"
_NO_DRIVER = """
import sys, ninelives_reports.write
print(*sorted(sys.modules.keys() & {"psycopg", "asyncpg", "ninelives", "ninelives_rig.engines", "matplotlib.pyplot"}))
"""


def chunks(png: bytes) -> list[bytes]:
    """Return the types of the chunks of a PNG file."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    found, at = [], 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        found.append(png[at + 4 : at + 8])
        at += length + 12
    return found


def run_python(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_picture_that_a_report_shows_is_there(tmp_path: Path) -> None:
    root = qr2(tmp_path / "bundle")
    shown = [name for _, name in PICTURE.findall(render(root).read_text(encoding="utf-8"))]
    assert shown == ["plots/latency.png", "plots/timeline-before-commit.png", "plots/timeline-after-commit.png"]
    for name in shown:
        png = (root / name).read_bytes()
        assert set(chunks(png)) <= {b"IHDR", b"IDAT", b"IEND", b"pHYs"}, "no text, no time, no version"
        assert len({bytes(pixel) for line in (imread(io.BytesIO(png)) * 255).astype("uint8") for pixel in line}) > 20


def test_the_same_bundle_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    first, second = qr2(tmp_path / "first"), qr2(tmp_path / "second")
    hostile = tmp_path / "style"
    hostile.mkdir()
    (hostile / "matplotlibrc").write_text("figure.facecolor: black\nfont.size: 30\nsavefig.dpi: 20\n")
    run_python(_RENDER, str(first), PYTHONHASHSEED="1", DISPLAY="", MPLBACKEND="agg", LC_ALL="C")
    run_python(
        _RENDER, str(second),
        PYTHONHASHSEED="2", DISPLAY=":99", MPLBACKEND="there_is_none", TZ="Asia/Tokyo", MATPLOTLIBRC=str(hostile),
    )  # fmt: skip
    names = ["report.md", *sorted(f"plots/{path.name}" for path in (first / "plots").iterdir())]
    assert len(names) == 4
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_reports_reach_no_driver_no_runtime_and_no_window() -> None:
    assert run_python(_NO_DRIVER).split() == []


def test_a_run_without_kills_has_a_timeline_and_no_latency(tmp_path: Path) -> None:
    story = Story(flows=1)
    story.start(0)
    story.node("worker-1", "worker")
    story.claim("worker-1", 0)
    story.run("worker-1", 0)
    story.close()
    root = judged(tmp_path / "bundle", story)
    render(root)
    assert [path.name for path in sorted((root / "plots").iterdir())] == ["timeline-before-commit.png"]


def busy_timeline() -> Timeline:
    """100 kills and thousands of takeovers in a minute, over five lanes."""
    chance = random.Random(1)
    lanes = []
    for name, role in [(f"worker-{n}", "worker") for n in (1, 2, 3)] + [(f"recovery-{n}", "recovery") for n in (1, 2)]:
        kills = sorted(chance.uniform(1, 59) for _ in range(20))
        starts = [0.2, *(kill + 0.05 for kill in kills)]
        lanes.append(
            Lane(
                name=name,
                role=role,
                lives=tuple(zip(starts, [*kills, 60.0], strict=True)),
                kills_s=tuple(kills),
                takeovers_s=tuple(chance.uniform(1, 59) for _ in range(1600)),
                faults=((30.0, 34.0),),
            )
        )
    finishes = tuple(chance.uniform(0, 60) for _ in range(10_000))
    phases = (("start", 0.0, 0.4), ("disturb", 0.4, 57.0), ("drain", 57.0, 59.0), ("stop", 59.0, 60.0))
    return Timeline("before-commit", 60.0, tuple(lanes), finishes, 10_000, phases)


def many_waits() -> list[Waits]:
    """Arms whose curves lie apart, on each other, on one value, and on one side only."""
    chance = random.Random(2)
    wide = sorted(chance.lognormvariate(-2, 1) for _ in range(5000))
    narrow = sorted(chance.uniform(3.6, 3.7) for _ in range(55))
    return [
        Waits("before-commit", tuple(wide), tuple(sorted(wait * 3 for wait in wide)), 30.0),
        Waits("at_most_once.after-commit", tuple(narrow), tuple(narrow), 30.0),
        Waits("one", (0.02,), (0.02,), 2.0),
        Waits("ends only", (), (0.0, 45.0), None),
        Waits("effects only", (1e-9, 0.5), (), 30.0),
    ]


def captured(monkeypatch: pytest.MonkeyPatch, module: object, draw: Callable[[], bytes]) -> tuple[Figure, bytes]:
    """Draw, and return the figure beside the PNG."""
    figures: list[Figure] = []

    def keep(width_in: float, height_in: float, paint: Callable[[Figure], None]) -> bytes:
        def paint_and_keep(figure: Figure) -> None:
            figures.append(figure)
            paint(figure)

        return canvas.draw(width_in, height_in, paint_and_keep)

    monkeypatch.setattr(module, "draw", keep)
    png = draw()
    return figures[0], png


def assert_readable(figure: Figure) -> None:
    """No two texts lie on each other, and none leaves the picture."""
    hidden = {id(text) for axes in figure.axes for text in undrawn_texts(axes)}
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text().strip()]
    shown = [text for text in texts if text.get_visible() and id(text) not in hidden]
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    assert len(boxes) > 10
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0, f"{text!r} leaves the picture"
        assert box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height, f"{text!r} leaves the picture"
    for (one, box), (other, next_box) in itertools.combinations(boxes, 2):
        apart = box.x1 <= next_box.x0 or next_box.x1 <= box.x0 or box.y1 <= next_box.y0 or next_box.y1 <= box.y0
        assert apart, f"{one!r} lies on {other!r}"


def undrawn_texts(axes: canvas.Axes) -> list[Text]:
    """Return the texts of hidden axes, and the tick labels beyond the end of an axis."""
    if not axes.get_visible():
        return [text for text in axes.findobj(Text) if isinstance(text, Text)]
    found = []
    for axis, limits, place in ((axes.xaxis, axes.get_xlim(), 0), (axes.yaxis, axes.get_ylim(), 1)):
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            labels = (tick.label1, tick.label2)
            found += [text for text in labels if not min(limits) <= text.get_position()[place] <= max(limits)]
    return found


def test_a_hundred_kills_are_drawn_without_texts_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, png = captured(monkeypatch, timeline, lambda: draw_timeline(busy_timeline()))
    assert_readable(figure)
    assert png == draw_timeline(busy_timeline())
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[1:] == ["taken over / s", "finished / s"]
    assert "seconds since the arm began" in figure.axes[2].get_xlabel()


def test_latencies_are_drawn_without_texts_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, png = captured(monkeypatch, latency, lambda: draw_latency(many_waits()))
    assert_readable(figure)
    assert png == draw_latency(many_waits())
    assert "(n = 5 000 next effects, 5 000 ends)" in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_arms_can_be_drawn(count: int) -> None:
    assert len(draw_latency(many_waits()[:count])) > 5000


def test_an_empty_timeline_can_be_drawn() -> None:
    lane = Lane("worker-1", "worker", ((0.0, 0.0),), (), (), ())
    assert len(draw_timeline(Timeline("a", 1e-9, (lane,), (), 0, ()))) > 5000


@pytest.mark.slow
def test_two_arms_of_ten_thousand_flows_are_reported_in_seconds(tmp_path: Path) -> None:
    root = judged(tmp_path / "bundle", large_story("before-commit"), large_story("after-commit"))
    begun = time.process_time()
    render(root)
    assert time.process_time() - begun < 15.0
