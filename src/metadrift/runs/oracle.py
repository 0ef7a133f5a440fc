"""The oracle: a detector that knows the true changes. Results with it are marked as oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from metadrift.detection import Change, ChangeDetector
from metadrift.detection.features import FeatureExtractor
from metadrift.runs.stream_clock import StreamClock
from metadrift.tasks import TaskBatch


class OracleDetector(ChangeDetector):
    """Reports every true change at its step, or at the next step that is learned.

    Parameters
    ----------
    changes
        Steps of the stream.
    clock
        The clock that knows which steps were left out.
    """

    def __init__(self, changes: Sequence[int], clock: StreamClock | None = None) -> None:
        super().__init__()
        self._changes = sorted(changes)
        self._clock = clock or StreamClock()

    def _take(self, vector: NDArray[np.float64]) -> Change | None:
        last = self._clock.stream_step(self.step - 1) if self.step else -1
        now = self._clock.stream_step(self.step)
        changed = any(last < change <= now for change in self._changes)
        found = Change(self.step, self.step, self.statistic, self.threshold) if changed else None
        self.step += 1
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])


class NoFeatures(FeatureExtractor):
    """The oracle needs no features."""

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return np.zeros(1)
