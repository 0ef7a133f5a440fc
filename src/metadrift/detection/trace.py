"""A detector on a whole stream of vectors: the changes, and the statistic at every step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metadrift import registry
from metadrift.detection.calibration import calibrated
from metadrift.detection.config import DetectionConfig
from metadrift.detection.detectors import LARGE, Change, ChangeDetector
from metadrift.detection.mmd import Array
from metadrift.detection.projection import Projection
from metadrift.errors import MetadriftError

EVERY = 10_000


@dataclass(frozen=True)
class Trace:
    """The changes, and statistic and threshold [T] of each step, nan where there are none yet."""

    config: DetectionConfig
    changes: list[Change]
    statistic: NDArray[np.float64]
    threshold: NDArray[np.float64]


def detect(
    vectors: Array,
    *,
    mode: str = "default",
    window: int = 50,
    false_alarm_every: float | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """Find the changes in vectors [T, D] of any scale.

    Parameters
    ----------
    mode
        `default`, `fourier`, or `paper` (Algorithm 1 as printed, on the paper's z).
    window
        B; a change is reported some B/2 to 2B steps after it.
    false_alarm_every
        At most one false alarm in so many steps; 10,000 if not given. Not for mode paper.
    seed
        Of the permutations and of the Fourier frequencies.
    progress
        Called now and then with the number of vectors done.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stream = np.concatenate([rng.normal(0, 1, (400, 4)), rng.normal(2, 1, (200, 4))])
    >>> [change.started_at for change in detect(stream, window=20).changes]
    [400]
    """
    settings = fitted(vectors, mode, window, false_alarm_every, seed)
    unit = _unit(np.asarray(vectors[: settings.burn_in], np.float64))
    kind = registry.subclass("detectors", mode, ChangeDetector)
    detector = registry.made(kind, settings)
    projection = Projection(settings.lags, settings.alpha) if mode == "paper" else None
    T = len(vectors)
    changes: list[Change] = []
    statistic, threshold = np.full(T, np.nan), np.full(T, np.nan)
    for step, vector in enumerate(vectors):
        seen = np.asarray(vector, np.float64) * unit
        if not np.isfinite(seen).all():
            raise MetadriftError(
                f"the embedding of step {step} holds NaN or infinity; a detector needs finite "
                "numbers"
            )
        seen = np.clip(seen, -LARGE, LARGE)
        change = detector.update(projection.update(seen) if projection else seen)
        statistic[step], threshold[step] = detector.statistic, detector.threshold
        if change is not None:
            changes.append(change)
        if progress is not None and step % 1000 == 999:
            progress(1000)
    return Trace(settings, changes, statistic, threshold)


def fitted(
    vectors: Array, mode: str, window: int, false_alarm_every: float | None, seed: int = 0
) -> DetectionConfig:
    """The settings for a stream: burn-in and forgetting in windows, thresholds from the rate."""
    if vectors.ndim != 2 or vectors.shape[1] < 1:
        raise MetadriftError(f"a stream of vectors must be [steps, D], not {list(vectors.shape)}")
    settings = DetectionConfig(
        mode=mode, window=window, burn_in=6 * window, rho=1 / (20 * window), seed=seed
    ).resolved()
    if mode not in ("default", "fourier") and false_alarm_every is None:
        return settings
    sample = np.asarray(vectors[: settings.burn_in], np.float64)
    finite = np.isfinite(sample).all(1)
    if len(sample) < 4 or not finite.all():
        return settings  # too short to learn from, or `detect` will name the NaN
    sample = np.clip(sample * _unit(sample), -LARGE, LARGE)
    return calibrated(settings, sample, EVERY if false_alarm_every is None else false_alarm_every)


def _unit(sample: Array) -> float:
    """A power of two that brings the first vectors into a range in which squares are numbers."""
    largest = float(np.abs(sample[np.isfinite(sample)]).max(initial=0.0))
    if largest == 0 or 1 / LARGE < largest < LARGE:
        return 1.0
    return math.ldexp(1.0, min(max(-math.frexp(largest)[1], -1000), 1000))
