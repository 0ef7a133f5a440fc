"""Loss-aware reservoir: no domains, no detection; hard batches stay longer."""

from __future__ import annotations

from metadrift.methods.base import StepOutcome
from metadrift.methods.replaying import ReplayingMethod
from metadrift.tasks import TaskBatch


class LossAware(ReplayingMethod):
    """A weighted reservoir (LossAwareMemory) with the batch's loss as its weight, uniform replay.

    Beside the reservoir it shows what difficulty alone brings, beside m2d3-pets what detection
    brings.
    """

    def remember(self, tasks: TaskBatch, learned: StepOutcome, label: int = 0) -> bool:
        with self.clock("memory"):
            logits = learned.arriving.logits if self.memory.buffer.keeps_logits else None
            return self.memory.offer(tasks, label, learned.loss, logits) is not None
