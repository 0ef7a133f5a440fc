"""The oracle: a detector that knows the true changes. Results with it are marked as oracle."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from metadrift.detection import Change, ChangeDetector, DetectionConfig, LatentDomains, Move
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


class OracleDomains(LatentDomains):
    """Gives every true stay its label; a domain that comes back has its old one.

    Parameters
    ----------
    changes
        Steps of the stream.
    labels
        The label of each stay, one more than there are changes.
    clock
        Which steps were left out.
    """

    def __init__(self, changes: Sequence[int], labels: Sequence[int], clock: StreamClock) -> None:
        super().__init__(DetectionConfig(returns="off"))
        self._changes, self._labels, self._clock = sorted(changes), list(labels), clock

    def update(self, vector: NDArray[np.float64], change: Change | None) -> list[Move]:
        self.step += 1
        if change is None:
            return []
        stay = bisect.bisect_right(self._changes, self._clock.stream_step(change.at_step))
        known = {label for _, label in self.stays}
        self.label = self._labels[stay]
        self.stays.append((change.started_at, self.label))
        return [Move(self.label, change.started_at, returned=self.label in known)]


class NoFeatures(FeatureExtractor):
    """The oracle needs no features."""

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return np.zeros(1)
