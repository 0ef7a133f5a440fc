"""The oracle: a detector that is told the truth. For upper bounds, always marked as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from metadrift.detection import Change
from metadrift.tasks import TaskBatch


class OracleDetector:
    """Reports every true change at the step where it happens."""

    statistic = float("nan")
    threshold = float("nan")

    def __init__(self, changes: Sequence[int]) -> None:
        self._changes = set(changes)
        self._step = -1

    def update(self, embedding: NDArray[np.floating[Any]]) -> Change | None:
        self._step += 1
        if self._step not in self._changes:
            return None
        return Change(self._step, self._step, self.statistic, self.threshold)

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._step = int(state["step"])


class NoFeatures:
    """The oracle looks at nothing."""

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return np.zeros(1)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
