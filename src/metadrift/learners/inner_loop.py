"""Shared by ANIL and MAML: a linear head, and a few gradient steps on the support images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind
from metadrift.learners.backbones import linear_head
from metadrift.learners.base import MetaLearner
from metadrift.learners.normalisation import Normalisation
from metadrift.learners.outcome import Outcome
from metadrift.tasks import TaskBatch


class InnerLoopLearner(MetaLearner):
    """A learner that adapts to each task by gradient steps.

    Parameters
    ----------
    ways
        Outputs of the head. Every task must have this many classes.
    generator
        The random generator for the head's weights.
    inner_steps, inner_lr
        Gradient steps on the support images, and their learning rate. By default the rate is 5/D
        but at most 0.1, because the change of a logit grows with the size D of the features.
    first_order
        Treat the inner gradients as constants. Faster, but ignores second derivatives.
    """

    usual_filters = 48
    has_head = True

    def __init__(
        self,
        backbone: nn.Module,
        example: ExampleKind | int,
        normalisation: Normalisation,
        *,
        ways: int,
        generator: Generator,
        inner_steps: int = 5,
        inner_lr: float | None = None,
        first_order: bool = False,
    ) -> None:
        super().__init__(backbone, example, normalisation)
        self.head = linear_head(self.feature_size(), ways, generator)
        self.inner_steps = inner_steps
        self.inner_lr = min(0.1, 5 / self.head.in_features) if inner_lr is None else inner_lr
        self.first_order = first_order
        if self.inner_steps < 1 or not self.inner_lr > 0:
            raise UsageError(
                f"an inner loop needs at least 1 step and a learning rate above 0, "
                f"not inner_steps={self.inner_steps}, inner_lr={self.inner_lr}"
            )

    def forward(self, tasks: TaskBatch, groups: Sequence[int] | None = None) -> Outcome:
        """Raise if the tasks have other ways than the head. Training needs the same number."""
        if groups is not None:
            raise MetadriftError("this learner's head has fixed ways and cannot take wider tasks")
        ways, outputs = tasks.geometry.ways, self.head.out_features
        if ways != outputs:
            raise MetadriftError(
                f"the learner's head has {outputs} outputs and the tasks have {ways} ways; "
                f"make the learner with ways={ways}"
            )
        return super().forward(tasks)

    def starting_head(self, ways: int) -> tuple[Tensor, Tensor, float]:
        """The start of the inner loop: weight [ways, D], bias [ways], and their learning rate.

        For the ways of training that is the trained head. For other ways every class starts from
        the mean of the trained rows: in training a class uses each row equally often, so the mean
        is what the rows have in common. A class's part of the mean loss is 1/ways. The rate grows
        with the ways, so that the step of each class is as long as in training.
        """
        weight, bias, trained = self.head.weight, self.head.bias, self.head.out_features
        if ways == trained:
            return weight, bias, self.inner_lr
        mean = weight.mean(0, keepdim=True).expand(ways, -1), bias.mean().expand(ways)
        return *mean, self.inner_lr * ways / trained


def linear(weight: Tensor, bias: Tensor, features: Tensor) -> Tensor:
    """Heads [T, ways, D] and [T, ways] on features [T, n, D]: [T, n, ways]."""
    return torch.baddbmm(bias.unsqueeze(1), features, weight.transpose(1, 2))
