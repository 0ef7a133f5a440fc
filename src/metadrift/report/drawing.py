"""A figure for papers, as a PNG, an SVG and a PDF file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metadrift.storage.files import write_atomically

# Per format, the metadata to leave out (dates, program names): the same data give the same bytes.
FORMATS: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def figure_files(stem: Path) -> list[Path]:
    """STEM.png, STEM.svg and STEM.pdf; a dot in the name stays a dot."""
    return [stem.with_name(f"{stem.name}.{ending}") for ending in FORMATS]


@contextmanager
def figure(stem: Path, size: tuple[float, float], title: str) -> Iterator[Any]:
    """Axes to draw into. At the end the figure is written to `figure_files(stem)`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    # Names are text, never mathematics. SVG and PDF keep them searchable. PDF's default fonts
    # (Type 3) are replaced, as publishers refuse them.
    style |= {"text.parse_math": False, "svg.fonttype": "none", "pdf.fonttype": 42}
    with rc_context(style | {"svg.hashsalt": "metadrift"}):
        made = Figure(figsize=size, layout="constrained")
        axes = made.add_subplot()
        axes.set_title(title, fontsize=9)
        yield axes
        for file, (form, metadata) in zip(figure_files(stem), FORMATS.items(), strict=True):
            drawn = io.BytesIO()
            made.savefig(drawn, format=form, dpi=200, metadata=metadata)
            write_atomically(file, drawn.getvalue())
