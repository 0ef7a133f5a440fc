"""GSS-Greedy: keep batches whose gradients point in different directions."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from metadrift.learners import frozen_statistics
from metadrift.memory import GSSMemory, Memory
from metadrift.methods.base import StepRecord
from metadrift.methods.parts import MethodParts
from metadrift.methods.replaying import ReplayingMethod
from metadrift.randomness import Purpose
from metadrift.tasks import TaskBatch


class GSS(ReplayingMethod):
    """Gradient-based sample selection on tasks, uniform replay.

    The gradient of the arriving batch is compared with those of a few stored batches at the same
    weights. That takes one backward pass per stored batch at every step.

    Parameters
    ----------
    memory
        A GSSMemory. It draws the stored batches to compare with, and decides by the result.

    References
    ----------
    Aljundi et al., Gradient based sample selection for online continual learning, 2019.
    """

    many_processes = False
    memory_rule = "gss"
    memory_kind = GSSMemory
    memory: GSSMemory

    @classmethod
    def make_memory(cls, parts: MethodParts) -> Memory:
        if parts.memory_class not in (None, GSSMemory):
            return super().make_memory(parts)
        gate, compared = parts.baseline.gss_gate, parts.baseline.gss_compare
        return GSSMemory(parts.room(), parts.rng(Purpose.MEMORY), gate=gate, compared=compared)

    def step(self, tasks: TaskBatch) -> StepRecord:
        replays = self.draw()
        outcome = self.forward(self.fresh(tasks))
        gradient = self.gradients(outcome.objective)
        similarity = self.similarity(gradient)
        if replays:
            replayed = self.outcome_of(replays)
            more = self.gradients(self.replay_term(replayed, replays))
            gradient = [a + b for a, b in zip(gradient, more, strict=True)]
            outcome = replace(outcome, replayed=replayed, batches=len(replays))
        outcome = self.descend(outcome, gradient, *similarity)
        arrival = replace(self.arrival(tasks, outcome), similarity=max(outcome.more, default=None))
        return outcome.record(admitted=self.remember(arrival))

    def similarity(self, gradient: list[Tensor]) -> list[Tensor]:
        """The cosines with the gradients of some stored batches."""
        with self.clock("memory"), frozen_statistics(self.learner):
            arriving, cosines = _flat(gradient), []
            for slot in self.memory.draw_compared():
                loss = self.outcome_of(self.replays([slot])).loss.mean()
                other = _flat(self.gradients(loss))
                cosines.append(torch.cosine_similarity(arriving, other, dim=0))
            return cosines


def _flat(gradient: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in gradient])
