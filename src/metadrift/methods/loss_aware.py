"""Loss-aware reservoir: no domains, no detection; hard batches stay longer."""

from __future__ import annotations

from dataclasses import replace

from metadrift.memory import Arrival, LossAwareMemory
from metadrift.methods.base import StepOutcome
from metadrift.methods.replaying import ReplayingMethod
from metadrift.tasks import TaskBatch


class LossAware(ReplayingMethod):
    """A weighted reservoir (LossAwareMemory) with the batch's loss as its weight, uniform replay.

    Against the reservoir it shows the effect of difficulty alone. Against m2d3-pets it shows the
    effect of detection.
    """

    memory_rule = "loss-aware"
    memory_kind = LossAwareMemory

    def arrival(self, tasks: TaskBatch, outcome: StepOutcome, label: int = 0) -> Arrival:
        return replace(super().arrival(tasks, outcome, label), importance=outcome.loss)
