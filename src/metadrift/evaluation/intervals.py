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
    """One method minus another, paired by seed, with both ends of Student's 95 % interval.

    With one seed the ends are nan.
    """

    mean: float
    t95: tuple[float, float]
    seeds: int


def over_seeds(values: Sequence[float]) -> Spread:
    """Mean, standard deviation and interval of one number per seed.

    Examples
    --------
    >>> spread = over_seeds([0.5, 0.6, 0.7])
    >>> round(spread.mean, 2), round(spread.sd, 2), round(spread.ci95, 3)
    (0.6, 0.1, 0.248)
    """
    n = len(values)
    if n == 0:
        raise UsageError("cannot average over seeds: there is no value")
    mean = float(np.mean(values))
    if n == 1:
        return Spread(mean, math.nan, math.nan, 1)
    sd = float(np.std(values, ddof=1))
    return Spread(mean, sd, t_quantile(n - 1) * sd / math.sqrt(n), n)


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """The mean of ours - theirs over common seeds, with its interval.

    Examples
    --------
    >>> difference = paired_difference([0.52, 0.61, 0.69], [0.50, 0.58, 0.68])
    >>> round(difference.mean, 3), [round(end, 3) for end in difference.t95]
    (0.02, [-0.005, 0.045])
    """
    if len(ours) != len(theirs):
        raise UsageError(f"{len(ours)} and {len(theirs)} values cannot be paired by seed")
    gaps = over_seeds([a - b for a, b in zip(ours, theirs, strict=True)])
    return Difference(gaps.mean, (gaps.mean - gaps.ci95, gaps.mean + gaps.ci95), gaps.seeds)


def t_quantile(degrees: int) -> float:
    """Half the width of Student's 95 % interval, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))
