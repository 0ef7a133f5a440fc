"""Measures of a whole run, from accuracies after each segment of the stream."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metadrift.errors import MetadriftError


@dataclass(frozen=True)
class Summary:
    """What an accuracy matrix comes to; all as shares of 1, `nan` where there is nothing to say.

    Parameters
    ----------
    average, worst_domain
        Mean and least accuracy over domains, after the last segment.
    worst_domain_name
        Which one that is.
    forgetting
        Best accuracy after an earlier segment minus the last, averaged over the domains whose
        segment was not the last (Chaudhry et al. 2018, with domains for tasks).
    backward_transfer
        Last accuracy minus the one right after the domain's own segment, over the same domains
        (Lopez-Paz and Ranzato 2017).
    area
        Area under the average-accuracy curve, by the trapezoid rule over steps, as a share of 1.
    """

    average: float
    worst_domain: float
    worst_domain_name: str
    forgetting: float
    backward_transfer: float
    area: float


def summarise(
    accuracy: NDArray[np.float64],
    domains: Sequence[str],
    *,
    steps: Sequence[int],
    seen: Sequence[str],
) -> Summary:
    """Summarise one run.

    Parameters
    ----------
    accuracy
        [evaluations, domains], one row after each true segment.
    domains
        The names of the columns.
    steps
        At which step each row was measured, rising.
    seen
        The domain of the segment that ended with each row; a domain may come back.

    Examples
    --------
    >>> accuracy = np.array([[0.8, 0.3], [0.5, 0.7]])
    >>> run = summarise(accuracy, ["cats", "cars"], steps=[100, 200], seen=["cats", "cars"])
    >>> round(run.average, 3), run.worst_domain_name, round(run.forgetting, 3)
    (0.6, 'cats', 0.3)
    >>> round(run.backward_transfer, 3), round(run.area, 3)
    (-0.3, 0.575)
    """
    accuracy = np.asarray(accuracy, np.float64)
    if accuracy.shape != (len(steps), len(domains)) or len(seen) != len(steps) or not len(steps):
        raise MetadriftError(
            f"an accuracy matrix [evaluations, domains] with {len(steps)} steps, {len(seen)} "
            f"segments and {len(domains)} domains cannot have the shape {list(accuracy.shape)}"
        )
    unknown = sorted(set(seen) - set(domains))
    if unknown:
        raise MetadriftError(f"the segment of {unknown[0]!r} has no column in the accuracy matrix")
    last = accuracy[-1]
    lost = [accuracy[row:-1, d].max() - last[d] for d, row in _first_segments(domains, seen)]
    gained = [last[d] - accuracy[row, d] for d, row in _last_segments(domains, seen)]
    worst = int(last.argmin())
    return Summary(
        average=float(last.mean()),
        worst_domain=float(last[worst]),
        worst_domain_name=domains[worst],
        forgetting=_mean(lost),
        backward_transfer=_mean(gained),
        area=area_under_curve(steps, accuracy.mean(1).tolist()),
    )


def area_under_curve(steps: Sequence[int], values: Sequence[float]) -> float:
    """The trapezoid area under values over steps, divided by the steps it spans."""
    if len(steps) == 1:
        return float(values[0])
    if any(b <= a for a, b in itertools.pairwise(steps)):
        raise MetadriftError(f"the steps of a curve must rise, not {list(steps)}")
    return float(np.trapezoid(values, steps)) / (steps[-1] - steps[0])


def _first_segments(domains: Sequence[str], seen: Sequence[str]) -> list[tuple[int, int]]:
    """(column, row after its first segment) of each domain whose last segment is not the end."""
    first = {name: row for row, name in reversed(list(enumerate(seen)))}
    return [(d, first[domains[d]]) for d, _ in _last_segments(domains, seen)]


def _last_segments(domains: Sequence[str], seen: Sequence[str]) -> list[tuple[int, int]]:
    """(column, row after its last segment) of each domain whose last segment is not the end."""
    last = {name: row for row, name in enumerate(seen)}
    pairs = [(d, last[name]) for d, name in enumerate(domains) if name in last]
    return [(d, row) for d, row in pairs if row < len(seen) - 1]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
