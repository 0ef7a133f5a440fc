"""The chart of a detection: statistic, threshold, alarms, and the start of each change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from metadrift.detection.trace import Trace
from metadrift.errors import MetadriftError
from metadrift.report.drawing import figure, figure_files
from metadrift.report.thinning import peaks_kept

STATISTIC, THRESHOLD, ALARM, QUIET = "#3268c4", "#1f2328", "#c93a3a", "#8a929c"
_MOST_POINTS = 4000


def draw_trace(trace: Trace, stem: Path, title: str) -> list[Path]:
    """Write STEM.png, STEM.svg and STEM.pdf.

    A long stream is thinned without losing its peaks.
    """
    try:
        with figure(stem, (8.0, 3.2), title) as axes:
            _draw(axes, trace)
    except OSError as error:
        raise MetadriftError(f"the plot cannot be written to {stem}.png: {error}") from None
    return figure_files(stem)


def _draw(axes: Any, trace: Trace) -> None:
    axes.plot(*_thinned(trace.statistic), c=STATISTIC, lw=0.8, label="statistic")
    axes.plot(*_thinned(trace.threshold), c=THRESHOLD, lw=1.0, ls="--", label="threshold")
    for number, (start, end) in enumerate(_without_statistic(trace.statistic)):
        label = "learning what is usual" if number == 0 else None
        axes.axvspan(start, end, color=QUIET, alpha=0.15, lw=0, label=label)
    for number, change in enumerate(trace.changes):
        first = number == 0
        axes.axvspan(
            change.started_at,
            change.at_step,
            color=ALARM,
            alpha=0.15,
            lw=0,
            label="from the start of a change to its report" if first else None,
        )
        axes.axvline(change.at_step, c=ALARM, lw=1.0, label="report" if first else None)
    axes.set(xlabel="step", ylabel="statistic", xlim=(0, max(len(trace.statistic) - 1, 1)))
    axes.legend(frameon=False, fontsize=7, loc="upper left", ncols=5, bbox_to_anchor=(0, -0.2))


def _without_statistic(statistic: np.ndarray) -> list[tuple[int, int]]:
    """First step and end of each stretch that has no statistic."""
    edges = np.flatnonzero(np.diff(np.isnan(statistic), prepend=False, append=False))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def _thinned(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values to draw, at most a few thousand."""
    known = [None if np.isnan(value) else value for value in values.tolist()]
    steps, kept = peaks_kept(range(len(known)), known, _MOST_POINTS)
    return np.array(steps), np.array(kept, np.float64)
