"""From "one false alarm in N steps" to the settings of the default detector.

A false alarm needs two coincidences. The statistic must cross its threshold by chance, which
happens once in T1 steps. Then the permutation test on fresh vectors must fail, at an exact level.
So N = T1 / level. T1 depends on delta, on the window B and on the skewness of the statistic when
nothing changes. The stream's first vectors give an estimate of that.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import gammaincc

from metadrift.detection.config import DetectionConfig
from metadrift.detection.mmd import Array, median_bandwidth, rbf
from metadrift.detection.whitening import Whitening
from metadrift.errors import UsageError

# With a lower delta, chance alarms would often be open when a change comes, and date it wrongly.
LEAST_DELTA = 3.5
MOST_LEVEL = 0.1
_LEVEL = 0.005
_LEAST_SKEW = 0.5  # with estimated moments any statistic is more skewed than its formula
_SAMPLE = 600


def calibrated(config: DetectionConfig, sample: Array, every: float) -> DetectionConfig:
    """The same settings with delta and level for at most one false alarm in `every` steps.

    Parameters
    ----------
    config
        Mode `default` or `fourier`; its delta and level are replaced.
    sample
        [N, D], vectors of one domain, such as the first of the stream.
    every
        Steps; the vectors of a domain are taken as independent draws.

    Examples
    --------
    >>> sample = np.random.default_rng(0).normal(size=(300, 8))
    >>> often, rarely = (calibrated(DetectionConfig(), sample, n) for n in (10_000, 1_000_000))
    >>> often.delta, round(often.level, 3), round(rarely.delta, 1), rarely.level
    (3.5, 0.059, 5.3, 0.005)
    """
    config = config.resolved()
    if config.mode == "paper":
        raise UsageError(
            "the paper's rule has no false-alarm rate to set: its threshold is fixed, and about "
            "half of all steps are above it; use mode default or fourier"
        )
    if not every >= 1:
        raise UsageError(f"one false alarm in {every} steps is impossible; give at least 1")
    skew = skewness(sample[:_SAMPLE])
    floor = _steps_between(LEAST_DELTA, skew, config)
    if every * _LEVEL <= floor:
        level = min(floor / every, MOST_LEVEL)
        return replace(config, delta=LEAST_DELTA, level=level)
    low, high = LEAST_DELTA, 100.0
    for _ in range(50):
        middle = (low + high) / 2
        enough = _steps_between(middle, skew, config) >= every * _LEVEL
        low, high = (low, middle) if enough else (middle, high)
    return replace(config, delta=high, level=_LEVEL)


def skewness(sample: Array) -> float:
    """The skewness of the MMD^2 between two samples of one distribution, from vectors [N, D] of it.

    It is a sum of squared normals weighted by the eigenvalues of the centred kernel. Traces give
    its third moment. The diagonal is left out, as in the statistic.
    """
    white = Whitening(sample)(sample)
    k = rbf(white, median_bandwidth(white))
    k = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
    np.fill_diagonal(k, 0.0)
    square = k @ k
    spread = float(np.trace(square))
    if spread <= 0:
        return _LEAST_SKEW  # all vectors are the same
    third = float((square * k).sum())
    return max(_LEAST_SKEW, math.sqrt(8) * third / math.pow(spread, 1.5))


def _steps_between(delta: float, skew: float, config: DetectionConfig) -> float:
    """T1: from a gamma tail of that skewness, and the time that the statistic stays high.

    The factor is a lower envelope of the measurements of benchmarks/false_alarms.py.
    """
    shape = 4 / skew**2
    tail = float(gammaincc(shape, shape + delta * math.sqrt(shape)))
    together = 0.08 * math.exp(-(delta - 2.5) / 2)
    if config.mode == "fourier":
        together /= 2
    return config.window * together / max(tail, 1e-300)
