"""Intervals over seeds, and for the difference of two methods that share their seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metadrift.errors import UsageError


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds, and the half width of Student's 95 % interval.

    With one seed there is no spread: `sd` and `ci95` are nan.
    """

    mean: float
    sd: float
    ci95: float
    seeds: int


@dataclass(frozen=True)
class Difference:
    """One method less another, paired by seed.

    `t95` is Student's interval. `bootstrap95` resamples the seeds; with fewer than about six of
    them it is too narrow, so the t interval is the one to read. Both are nan with one seed.
    """

    mean: float
    t95: tuple[float, float]
    bootstrap95: tuple[float, float]
    seeds: int


def over_seeds(values: Sequence[float]) -> Spread:
    """Mean, standard deviation and interval of one number a seed.

    Examples
    --------
    >>> spread = over_seeds([0.5, 0.6, 0.7])
    >>> round(spread.mean, 2), round(spread.sd, 2), round(spread.ci95, 3)
    (0.6, 0.1, 0.248)
    """
    n = len(values)
    if n == 0:
        raise UsageError("there is no seed to average over")
    mean = float(np.mean(values))
    if n == 1:
        return Spread(mean, math.nan, math.nan, 1)
    sd = float(np.std(values, ddof=1))
    return Spread(mean, sd, _t_quantile(n - 1) * sd / math.sqrt(n), n)


def paired_difference(
    ours: Sequence[float], theirs: Sequence[float], seed: int = 0, resamples: int = 9999
) -> Difference:
    """The mean of ours - theirs over common seeds, with its intervals.

    Examples
    --------
    >>> difference = paired_difference([0.52, 0.61, 0.69], [0.50, 0.58, 0.68])
    >>> round(difference.mean, 3), [round(end, 3) for end in difference.t95]
    (0.02, [-0.005, 0.045])
    """
    if len(ours) != len(theirs):
        raise UsageError(f"{len(ours)} and {len(theirs)} values cannot be paired by seed")
    gaps = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    spread = over_seeds(gaps.tolist())
    t95 = (spread.mean - spread.ci95, spread.mean + spread.ci95)
    return Difference(spread.mean, t95, _bootstrap(gaps, seed, resamples), len(gaps))


def _bootstrap(gaps: np.ndarray, seed: int, resamples: int) -> tuple[float, float]:
    if len(gaps) < 2:
        return math.nan, math.nan
    if np.ptp(gaps) == 0:
        return float(gaps[0]), float(gaps[0])
    from scipy.stats import bootstrap  # takes a quarter of a second to import

    interval = bootstrap(
        (gaps,), np.mean, n_resamples=resamples, method="percentile", rng=seed
    ).confidence_interval
    return float(interval.low), float(interval.high)


def _t_quantile(degrees: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, degrees))
