"""The oracle: a detector that is told the truth. For upper bounds, always marked as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from metadrift.detection import Change, ChangeDetector
from metadrift.tasks import TaskBatch


class OracleDetector(ChangeDetector):
    """Reports every true change at the step where it happens."""

    def __init__(self, changes: Sequence[int]) -> None:
        super().__init__()
        self._changes = set(changes)

    def _take(self, vectors: NDArray[np.float64]) -> list[Change]:
        steps = range(self.step, self.step + len(vectors))
        self.step += len(vectors)
        return [
            Change(step, step, self.statistic, self.threshold)
            for step in steps
            if step in self._changes
        ]

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])


class NoFeatures:
    """The oracle looks at nothing."""

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return np.zeros(1)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
