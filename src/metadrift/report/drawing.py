"""A figure as papers want it, as a PNG and an SVG file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def figure_files(stem: Path) -> list[Path]:
    """STEM.png and STEM.svg; a dot in the name stays a dot."""
    return [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]


@contextmanager
def figure(stem: Path, size: tuple[float, float], title: str) -> Iterator[Any]:
    """Axes to draw into; at the end the figure is written to `figure_files(stem)`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    # Names are text, never mathematics; the SVG keeps them as text, and has no date inside.
    with rc_context(style | {"text.parse_math": False, "svg.fonttype": "none"}):
        made = Figure(figsize=size, layout="constrained")
        axes = made.add_subplot()
        axes.set_title(title, fontsize=9)
        yield axes
        png, svg = figure_files(stem)
        made.savefig(png, dpi=200, metadata={"Software": None})
        made.savefig(svg, metadata={"Date": None})
