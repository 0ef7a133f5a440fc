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

    def _take(self, vector: NDArray[np.float64]) -> Change | None:
        now, self.step = self.step, self.step + 1
        return Change(now, now, self.statistic, self.threshold) if now in self._changes else None

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])


class NoFeatures:
    """The oracle looks at nothing."""

    uses_embedding = False

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return np.zeros(1)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
