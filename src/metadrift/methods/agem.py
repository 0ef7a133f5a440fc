"""A-GEM: stored batches are not trained on, but no step may raise their loss."""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from metadrift.learners import frozen_statistics
from metadrift.methods.base import StepRecord
from metadrift.methods.parts import MethodParts
from metadrift.methods.replaying import ReplayingMethod
from metadrift.tasks import TaskBatch


class AGEM(ReplayingMethod):
    """Averaged gradient episodic memory on tasks, with a reservoir.

    r is the mean gradient of the drawn batches. With plain SGD, projecting the gradient g when
    g.r < 0 keeps the memory's loss from rising, to first order. Adam rescales the gradient after
    the projection, which breaks this guarantee. So `update` projects the step that Adam proposes.

    Attributes
    ----------
    project
        `update` (what is applied) or `gradient` (before the optimiser, as in the original).

    References
    ----------
    Chaudhry et al., Efficient lifelong learning with A-GEM, 2019.
    """

    many_processes = False
    project: Literal["update", "gradient"]

    @classmethod
    def make(cls, parts: MethodParts) -> Self:
        method = super().make(parts)
        method.project = parts.baseline.agem_project
        return method

    def step(self, tasks: TaskBatch) -> StepRecord:
        replays = self.draw()
        reference = None
        if replays:
            with frozen_statistics(self.learner):
                reference = self.gradients(self.outcome_of(replays).loss.mean())
        outcome = self.forward(self.fresh(tasks))
        gradient = self.gradients(outcome.objective)
        if reference is None:
            outcome = self.descend(outcome, gradient)
        elif self.project == "gradient":
            outcome = self.descend(outcome, project_away(gradient, reference, sign=1))
        else:
            before = [p.detach().clone() for p in self.parameters()]
            outcome = self.descend(outcome, gradient, get_total_norm(reference))
            self.limit_update(before, reference)
        return outcome.record(admitted=self.remember(self.arrival(tasks, outcome)))

    @torch.no_grad()
    def limit_update(self, before: list[Tensor], reference: list[Tensor]) -> None:
        """Remove the part of the step just made that raises the memory's loss."""
        parameters = self.parameters()
        update = [p - b for p, b in zip(parameters, before, strict=True)]
        allowed = project_away(update, reference, sign=-1)
        for p, b, step in zip(parameters, before, allowed, strict=True):
            p.copy_(b + step)


def project_away(vector: list[Tensor], reference: list[Tensor], sign: int) -> list[Tensor]:
    """v - (v.r/|r|^2) r when sign * v.r < 0, else v; then sign * v.r is 0.

    Examples
    --------
    >>> g, r = [torch.tensor([1.0, -2.0])], [torch.tensor([0.0, 1.0])]
    >>> project_away(g, r, sign=1)[0].tolist()
    [1.0, 0.0]
    """
    pairs = list(zip(vector, reference, strict=True))
    inner = torch.stack([(v * r).sum() for v, r in pairs]).sum()
    length = torch.stack([(r * r).sum() for r in reference]).sum()
    against = (sign * inner < 0) & (length > 0)  # stays on the device: no transfer to the host
    share = torch.where(against, inner / length, 0.0)
    return [v - share * r for v, r in pairs]
