"""Sequential training: learn from arriving tasks only, without a memory. A lower bound."""

from __future__ import annotations

from metadrift.methods.base import Method, StepRecord
from metadrift.tasks import TaskBatch


class Sequential(Method):
    """No memory."""

    def step(self, tasks: TaskBatch) -> StepRecord:
        return self.apply(self.forward(self.fresh(tasks))).record()
