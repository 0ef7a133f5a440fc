"""The default detector: an alarm by the two-window statistic, then a test on fresh batches."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from metadrift.detection.config import DetectionConfig
from metadrift.detection.confirm import best_split, find_split, permutation_p
from metadrift.detection.detectors import Change, ChangeDetector
from metadrift.detection.mmd import Array
from metadrift.detection.window_statistic import WindowStatistic
from metadrift.randomness import Purpose, generator

_MOST_DIMENSIONS = 256  # longer vectors go through a fixed random projection to half of this


class TwoStageDetector(ChangeDetector):
    """Alarm, confirm, date back, start again with the new domain.

    0. *Learn*: the first `burn_in` vectors of a domain give the scale of each direction, the
       kernel width and the spread of W. A domain shorter than that is not lost: every B/4 steps
       the vectors so far are searched for a split.
    1. *Watch*: W between adjacent windows of B; an alarm when W > mu + delta sigma.
    2. *Confirm*: at the alarm and every B/4 steps after it, the last 5B vectors are searched for
       a split that is certain. B steps after the alarm a fainter change has its last chance:
       the B vectors since then against the domain's vectors from before the windows, in a
       permutation test. If that fails, the alarm is forgotten. If one holds, the best split is
       where the new domain starts, and the detector learns again from the vectors since then.

    A part shorter than B between two domains is a transition between them, and not reported.

    Parameters
    ----------
    config
        Uses window, delta, rho, burn_in, permutations, level, seed; mode "fourier" watches with
        `FourierMMD` in place of W.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stream = np.concatenate([rng.normal(0, 1, (150, 4)), rng.normal(2, 1, (150, 4))])
    >>> detector = TwoStageDetector(DetectionConfig(window=20, burn_in=60))
    >>> [(change.started_at, change.at_step) for change in detector.update_many(stream)]
    [(150, 167)]
    """

    def __init__(self, config: DetectionConfig) -> None:
        super().__init__()
        self.config = config = config.resolved()
        self.B = config.window
        self.block = max(1, self.B // 5)  # neighbours that move together in a permutation
        self.pace = max(2, self.B // 4)  # steps between two searches
        self._rng = generator(config.seed, Purpose.PERMUTATIONS)
        # What the three stages look back at: the burn-in; reference 4B, windows 2B, fresh B.
        self._history: deque[Array] = deque(maxlen=max(config.burn_in, 8 * self.B))
        self._domain_start = 0
        self._alarm_at: int | None = None
        self._alarm = (math.nan, math.nan)  # its statistic and threshold
        self._windows: WindowStatistic | None = None  # none while the domain is learned
        self._projection: Array | None = None  # follows from the seed

    def _take(self, vector: Array) -> Change | None:
        if len(vector) > _MOST_DIMENSIONS:
            vector = self._shortened(vector)
        self._history.append(vector.copy())
        self.step += 1
        return self._learn() if self._windows is None else self._decide(self._windows, vector)

    def _learn(self) -> Change | None:
        length = self.step - self._domain_start
        self.statistic = self.threshold = math.nan
        full = length >= self.config.burn_in
        if not full and (2 * length < 3 * self.B or length % self.pace):
            return None
        found = self._search(self._since(self._domain_start))
        if self._windows is None and self.step - self._domain_start >= self.config.burn_in:
            self._arm()
        return found

    def _search(self, sample: Array) -> Change | None:
        """A change within the newest vectors that needs no test on fresh ones."""
        # After it more than a short disturbance must have come.
        least = self.B // 2, max(2, 2 * self.B // 3)
        found = find_split(sample, least, self.block, self.config.permutations, self._rng)
        if found is None:
            return None
        split, score, threshold = found
        started_at = self.step - len(sample) + split
        transition = self._domain_start > 0 and started_at - self._domain_start < self.B
        self._begin(started_at)
        return None if transition else Change(self.step - 1, started_at, score, threshold)

    def _arm(self) -> None:
        sample = self._since(self._domain_start)
        self._windows = WindowStatistic.learn(sample, self.config, self._rng)

    def _decide(self, windows: WindowStatistic, vector: Array) -> Change | None:
        now = self.step - 1
        self.statistic = W = windows.update(vector)
        self.threshold = windows.threshold
        windows.feed(W, now)
        if self._alarm_at is None and self.threshold < W:
            self._alarm_at, self._alarm = now, (W, self.threshold)
            windows.freeze(now + 2 * self.B)
        if self._alarm_at is None:
            return None
        waited = now - self._alarm_at
        if waited == self.B:
            return self._confirm(windows)
        if waited % self.pace:
            return None
        return self._search(self._since(self._domain_start)[-5 * self.B :])

    def _confirm(self, windows: WindowStatistic) -> Change | None:
        now, self._alarm_at = self.step - 1, None
        seen = self._since(self._domain_start)
        fresh, around, reference = seen[-self.B :], seen[-3 * self.B :], seen[: -3 * self.B]
        reference = reference[-4 * self.B :]
        p = permutation_p(fresh, reference, self.block, self.config.permutations, self._rng)
        if p > self.config.level:
            return None
        started_at = now + 1 - len(around) + best_split(around, windows.kernel(around), 2 * self.B)
        self._begin(started_at)
        return Change(now, started_at, *self._alarm)

    def _begin(self, step: int) -> None:
        self._domain_start = step
        self._alarm_at = self._windows = None
        if self.step - step >= self.config.burn_in:
            self._arm()

    def _shortened(self, vector: Array) -> Array:
        if self._projection is None:
            rng = generator(self.config.seed, Purpose.DETECTOR_PROJECTION)
            shape = len(vector), _MOST_DIMENSIONS // 2
            self._projection = rng.standard_normal(shape) / math.sqrt(len(vector))
        short: Array = vector.dot(self._projection)
        return short

    def _since(self, step: int) -> Array:
        """The vectors since a step, or as many as are kept."""
        vectors = np.stack(self._history)
        return vectors[max(0, len(vectors) - (self.step - step)) :]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "rng": self._rng.bit_generator.state,
            "history": np.stack(self._history) if self._history else None,
            "domain_start": self._domain_start,
            "alarm_at": self._alarm_at,
            "alarm": list(self._alarm),
            "windows": None if self._windows is None else self._windows.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._rng.bit_generator.state = state["rng"]
        self._history.clear()
        if state["history"] is not None:
            self._history.extend(np.array(state["history"], np.float64))
        self._domain_start = int(state["domain_start"])
        self._alarm_at = None if state["alarm_at"] is None else int(state["alarm_at"])
        statistic, threshold = state["alarm"]
        self._alarm = (float(statistic), float(threshold))
        saved = state["windows"]
        self._windows = None if saved is None else WindowStatistic.from_state(saved, self.config)
