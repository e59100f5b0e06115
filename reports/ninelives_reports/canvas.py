"""Drawing without a display: figures that go straight to PNG, with the same bytes for the same content everywhere."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def _no_backend_asked_for() -> Iterator[None]:
    """Hide MPLBACKEND while matplotlib is imported: a backend that is not there must not stop a report."""
    asked = os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        if asked is not None:
            os.environ["MPLBACKEND"] = asked


with _no_backend_asked_for():
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.patheffects import withStroke

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "INK",
    "SAND",
    "SKY",
    "VERMILION",
    "Axes",
    "Figure",
    "Line2D",
    "Patch",
    "draw",
    "tidy",
    "withStroke",
]

# Okabe and Ito: told apart by everyone, and by their lightness in print.
BLUE, GREEN, VERMILION = "#0072B2", "#009E73", "#D55E00"
SKY, SAND, INK, GREY = "#56B4E9", "#F5C56B", "#222222", "#8A8A8A"

_DPI = 110
_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "path.simplify": True,
    "hatch.linewidth": 0.6,
}


def draw(width_in: float, height_in: float, paint: Callable[[Figure], None]) -> bytes:
    """Return the PNG of a figure that ``paint`` fills. No style file, backend or display of the machine changes it."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(width_in, height_in), dpi=_DPI, facecolor="white", layout=None)
        FigureCanvasAgg(figure)
        paint(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
        return buffer.getvalue()


def tidy(axes: Axes) -> None:
    """Leave only the axes that carry a scale, and a quiet grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(True, which="major", color="#E3E3E3", linewidth=0.7)
