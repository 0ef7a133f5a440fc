"""MER: plain gradient steps over arriving and stored batches, then a Reptile step to the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from metadrift.learners import MetaLearner
from metadrift.memory import Memory
from metadrift.methods.base import NonFiniteError, StepOutcome, StepRecord, refuse_non_finite
from metadrift.methods.config import ReplayConfig
from metadrift.methods.replaying import ReplayingMethod
from metadrift.tasks import TaskBatch


class MER(ReplayingMethod):
    """Meta-experience replay on tasks, with a reservoir.

    From theta, one SGD step (rate alpha) on each of the arriving batch and the b drawn ones, in
    random order; then theta + beta (end - theta), and gamma across the s = 1 batches of a step.
    Parameters are interpolated, normalisation averages are not. Adam is not used.

    Parameters
    ----------
    alpha, beta, gamma
        The rates of the steps, of the interpolation within a batch, and across batches.

    References
    ----------
    Riemer et al., Learning to learn without forgetting by maximizing transfer and minimizing
    interference, 2019.
    """

    def __init__(
        self,
        learner: MetaLearner,
        optimizer: torch.optim.Optimizer,
        memory: Memory,
        config: ReplayConfig,
        rng: np.random.Generator,
        alpha: float,
        beta: float,
        gamma: float,
    ) -> None:
        super().__init__(learner, optimizer, memory, config, rng)
        self.alpha, self.beta, self.gamma = alpha, beta, gamma

    def step(self, tasks: TaskBatch) -> StepRecord:
        batches = [tasks, *(replay.tasks for replay in self.draw())]
        start = [p.detach().clone() for p in self.parameters()]
        found: dict[int, StepOutcome] = {}
        try:
            for index in self.rng.permutation(len(batches)).tolist():
                found[index] = self.forward(batches[index])
                self.descend(found[index])
        except NonFiniteError:
            self.put_back(start)  # earlier batches of this step have moved the weights
            raise
        self.interpolate(start)
        learned, stored = found.pop(0), [each.loss for each in found.values()]
        if stored:
            learned = replace(learned, replay_loss=sum(stored) / len(stored))
        return learned.record(admitted=self.remember(tasks, learned))

    def descend(self, learned: StepOutcome) -> None:
        """theta <- theta - alpha g."""
        refuse_non_finite(learned.objective, "the loss")
        parameters = self.parameters()
        gradients = torch.autograd.grad(learned.objective, parameters)
        refuse_non_finite(torch.nn.utils.get_total_norm(gradients), "a gradient")
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=self.alpha)

    @torch.no_grad()
    def interpolate(self, start: list[torch.Tensor]) -> None:
        for p, first in zip(self.parameters(), start, strict=True):
            p.copy_(first + self.gamma * self.beta * (p - first))

    @torch.no_grad()
    def put_back(self, start: list[torch.Tensor]) -> None:
        for p, first in zip(self.parameters(), start, strict=True):
            p.copy_(first)
