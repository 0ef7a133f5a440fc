"""MER: plain gradient steps over arriving and stored batches, then a Reptile step to the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import torch
from torch.nn.utils import get_total_norm

from metadrift.methods.base import NonFiniteError, StepOutcome, StepRecord
from metadrift.methods.parts import MethodParts
from metadrift.methods.replaying import ReplayingMethod
from metadrift.tasks import TaskBatch


class MER(ReplayingMethod):
    """Meta-experience replay on tasks, with a reservoir.

    From theta, take one SGD step (rate alpha) on each of the arriving batch and the b drawn ones,
    in random order. Then the weights become theta + beta (end - theta). Averages of the
    normalisation are not interpolated. Adam is not used. (The paper also interpolates by gamma
    across the batches of a step. Here there is one batch per step, so gamma would act like beta.)

    Attributes
    ----------
    alpha, beta
        The rates of the steps and of the interpolation.

    References
    ----------
    Riemer et al., Learning to learn without forgetting by maximizing transfer and minimizing
    interference, 2019.
    """

    many_processes = False
    alpha: float
    beta: float

    @classmethod
    def make(cls, parts: MethodParts) -> Self:
        method = super().make(parts)
        method.alpha, method.beta = parts.baseline.mer_alpha, parts.baseline.mer_beta
        return method

    def step(self, tasks: TaskBatch) -> StepRecord:
        batches = [self.fresh(tasks), *(replay.tasks for replay in self.draw())]
        start = [p.detach().clone() for p in self.parameters()]
        found: dict[int, StepOutcome] = {}
        norms: list[torch.Tensor] = []
        for index in self.rng.permutation(len(batches)).tolist():
            found[index] = self.forward(batches[index])
            gradient = self.gradients(found[index].objective)
            norms.append(get_total_norm(gradient))
            self.follow(gradient)
        arriving, stored = found.pop(0), [each.objective for each in found.values()]
        try:
            outcome = self.read(arriving, *norms, *stored)
        except NonFiniteError:
            self.put_back(start)  # undo the steps of the batches before
            raise
        self.interpolate(start)
        if stored:
            losses = outcome.more[-len(stored) :]
            outcome = replace(outcome, replay_loss=sum(losses) / len(losses))
        return outcome.record(admitted=self.remember(self.arrival(tasks, outcome)))

    @torch.no_grad()
    def follow(self, gradient: list[torch.Tensor]) -> None:
        """theta <- theta - alpha g."""
        for parameter, part in zip(self.parameters(), gradient, strict=True):
            parameter.sub_(part, alpha=self.alpha)

    @torch.no_grad()
    def interpolate(self, start: list[torch.Tensor]) -> None:
        for p, first in zip(self.parameters(), start, strict=True):
            p.copy_(first + self.beta * (p - first))

    @torch.no_grad()
    def put_back(self, start: list[torch.Tensor]) -> None:
        for p, first in zip(self.parameters(), start, strict=True):
            p.copy_(first)
