"""Score detected changes against the true ones."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from metadrift.streams.truth import Truth


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


@dataclass(frozen=True)
class LabelScore:
    """Latent domains against true ones.

    The label of a true stay is the one that most of its steps have in the end. A label belongs to
    the domain of the first stay that has it. A return is a stay in a domain that was there before;
    it is recognised when it has a label of that domain. A stay with a label of another domain is
    wrong: the two were merged, or the change between them was not found.
    """

    true_domains: int
    latent_domains: int
    returns: int
    recognised: int
    wrong_labels: int


def score_labels(truth: Truth, stays: Sequence[tuple[int, int]]) -> LabelScore:
    """Compare the truth with the latent stays, each its first step and its label.

    Examples
    --------
    >>> from metadrift.streams.benchmark import Segment
    >>> truth = Truth([Segment("a", 50), Segment("b", 50), Segment("a", 50), Segment("c", 50)])
    >>> score_labels(truth, [(0, 0), (52, 1), (101, 0), (150, 1)])
    LabelScore(true_domains=3, latent_domains=2, returns=1, recognised=1, wrong_labels=1)
    """
    owners: dict[int, str] = {}
    seen: set[str] = set()
    returns = recognised = wrong = 0
    spans = list(itertools.pairwise([*stays, (truth.ends[-1], -1)]))
    for domain, (first, end) in zip(truth.stays, itertools.pairwise([0, *truth.ends]), strict=True):
        steps: Counter[int] = Counter()
        for (start, label), (stop, _) in spans:
            steps[label] += max(0, min(stop, end) - max(start, first))
        label = steps.most_common(1)[0][0]
        owner = owners.setdefault(label, domain)
        returns += domain in seen
        recognised += domain in seen and owner == domain
        wrong += owner != domain
        seen.add(domain)
    labels = {label for _, label in stays}
    return LabelScore(len(truth.domains), len(labels), returns, recognised, wrong)
