"""Score detected changes against the true ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DetectionScore:
    """Reports against true changes.

    A change is found if it is reported before the next one begins. The first report counts; every
    other report is a false alarm. The delay is the time from the change to the report.
    """

    true_changes: int
    detected: int
    false_alarms: int
    mean_delay: float
    f1: float


def score_detection(changes: Sequence[int], reports: Sequence[int], steps: int) -> DetectionScore:
    """Compare steps of true changes with steps of reports. Both count from 0, in ascending order.

    Examples
    --------
    >>> score = score_detection([100, 200], reports=[50, 110, 150, 230], steps=300)
    >>> score.detected, score.false_alarms, score.mean_delay, round(score.f1, 2)
    (2, 2, 20.0, 0.67)
    """
    delays = []
    for change, until in itertools.pairwise([*changes, steps]):
        inside = [report for report in reports if change <= report < until]
        if inside:
            delays.append(inside[0] - change)
    found = len(delays)
    total = len(changes) + len(reports)
    return DetectionScore(
        true_changes=len(changes),
        detected=found,
        false_alarms=len(reports) - found,
        mean_delay=sum(delays) / found if found else math.nan,
        f1=2 * found / total if total else 1.0,
    )
