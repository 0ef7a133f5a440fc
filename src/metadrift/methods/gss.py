"""GSS-Greedy: keep batches whose gradients point in different directions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from metadrift.learners import MetaLearner, frozen_statistics
from metadrift.memory import GSSMemory
from metadrift.methods.base import StepRecord
from metadrift.methods.config import ReplayConfig
from metadrift.methods.replaying import ReplayingMethod
from metadrift.tasks import TaskBatch


class GSS(ReplayingMethod):
    """Gradient-based sample selection on tasks, uniform replay.

    The gradient of the arriving batch is compared with those of a few stored batches, computed at
    the same weights. That is one backward pass for each of them at every step.

    Parameters
    ----------
    memory
        A GSSMemory, which draws the stored batches to compare with and decides by the result.

    References
    ----------
    Aljundi et al., Gradient based sample selection for online continual learning, 2019.
    """

    def __init__(
        self,
        learner: MetaLearner,
        optimizer: torch.optim.Optimizer,
        memory: GSSMemory,
        config: ReplayConfig,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(learner, optimizer, memory, config, rng)
        self.memory: GSSMemory = memory

    def step(self, tasks: TaskBatch) -> StepRecord:
        replays = self.draw()
        outcome = self.forward(self.fresh(tasks))
        gradient = self.gradients(outcome.objective)
        similarity = self.similarity(gradient)
        if replays:
            replayed = self.outcome_of(replays)
            more = self.gradients(self.replay_term(replayed, replays))
            gradient = [a + b for a, b in zip(gradient, more, strict=True)]
            outcome = replace(outcome, replay_loss=replayed.loss.mean().item())
        self.descend(gradient)
        arrival = replace(self.arrival(tasks, outcome), similarity=similarity)
        return outcome.record(admitted=self.remember(arrival))

    def similarity(self, gradient: list[Tensor]) -> float | None:
        """The largest cosine with the gradients of some stored batches, None without any."""
        with self.clock("memory"), frozen_statistics(self.learner):
            arriving, cosines = _flat(gradient), []
            for slot in self.memory.draw_compared():
                loss = self.outcome_of(self.replays([slot])).loss.mean()
                other = _flat(self.gradients(loss))
                cosines.append(torch.cosine_similarity(arriving, other, dim=0))
            return torch.stack(cosines).max().item() if cosines else None


def _flat(gradient: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in gradient])
