"""Uncertainty across seeds: a mean with its interval, and the difference of two methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from metadrift.errors import MetadriftError

LEAST_FOR_BOOTSTRAP = 3  # two pairs have three possible resamples: no interval comes of that


@dataclass(frozen=True)
class SeedMean:
    """Mean over seeds, standard deviation, and half width of the 95 % interval (Student's t).

    With one seed the deviation and the interval are `nan`.
    """

    mean: float
    sd: float
    ci95: float
    seeds: int


@dataclass(frozen=True)
class Difference:
    """A minus B over the same seeds, with a 95 % interval and how it was found.

    `how` is `bootstrap` (paired, BCa where it can be computed), `t` (two seeds) or `none` (one).
    """

    mean: float
    low: float
    high: float
    how: str
    seeds: int


def over_seeds(values: Sequence[float]) -> SeedMean:
    """Summarise one number a seed.

    Examples
    --------
    >>> summary = over_seeds([0.50, 0.52, 0.54])
    >>> round(summary.mean, 3), round(summary.sd, 3), round(summary.ci95, 3), summary.seeds
    (0.52, 0.02, 0.05, 3)
    """
    x = np.asarray(values, np.float64)
    n = len(x)
    if n == 0:
        raise MetadriftError("there is no seed to average over")
    if n == 1:
        return SeedMean(float(x[0]), float("nan"), float("nan"), 1)
    sd = float(x.std(ddof=1))
    return SeedMean(float(x.mean()), sd, float(stats.t.ppf(0.975, n - 1)) * sd / n**0.5, n)


def paired_difference(
    a: Sequence[float], b: Sequence[float], *, rng: np.random.Generator, resamples: int = 9999
) -> Difference:
    """How much better A is than B, seed by seed.

    Parameters
    ----------
    a, b
        One number a seed, the same seeds in the same order.
    rng
        Draws the resamples.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> d = paired_difference([0.6, 0.7, 0.8, 0.7], [0.5, 0.6, 0.6, 0.6], rng=rng)
    >>> round(d.mean, 3), d.how, round(d.low, 1), round(d.high, 1)
    (0.125, 'bootstrap', 0.1, 0.2)
    """
    if len(a) != len(b) or len(a) == 0:
        raise MetadriftError(
            f"a paired difference needs the same seeds for both methods, not {len(a)} and {len(b)}"
        )
    differences = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    mean, n = float(differences.mean()), len(differences)
    if n == 1:
        return Difference(mean, float("nan"), float("nan"), "none", 1)
    if np.ptp(differences) == 0:  # the bootstrap cannot say more, and warns
        return Difference(mean, mean, mean, "bootstrap" if n >= LEAST_FOR_BOOTSTRAP else "t", n)
    if n < LEAST_FOR_BOOTSTRAP:
        half = over_seeds(differences.tolist()).ci95
        return Difference(mean, mean - half, mean + half, "t", n)
    # Resampling the differences is resampling seeds with both methods' numbers in pairs.
    found = stats.bootstrap(
        (differences,), np.mean, n_resamples=resamples, confidence_level=0.95, rng=rng
    )
    low, high = found.confidence_interval
    return Difference(mean, float(low), float(high), "bootstrap", n)
