"""ANIL (almost no inner loop): the features are shared, only a linear head adapts to a task."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from metadrift.errors import UsageError
from metadrift.learners.backbones import linear_head
from metadrift.learners.base import MetaLearner, require_ways
from metadrift.learners.normalisation import Normalisation
from metadrift.learners.outcome import Outcome
from metadrift.tasks import TaskBatch

Head = tuple[Tensor, Tensor]  # weight [ways, D] and bias [ways]


class ANIL(MetaLearner):
    """Features once for support and query; gradient steps on the head alone, task by task.

    Parameters
    ----------
    ways
        Outputs of the head; every task must have as many classes.
    inner_steps, inner_lr
        Gradient steps on the support images, and their learning rate; left out, it is 5/D but at
        most 0.1, since the change of a logit grows with the size D of the features.
    first_order
        Treat the inner gradients as constants: cheaper, and blind to how the features shape them.

    References
    ----------
    Raghu, Raghu, Bengio, Vinyals: Rapid learning or feature reuse?, 2020.

    Examples
    --------
    >>> from metadrift.learners import make_learner
    >>> from metadrift.tasks import TaskGeometry
    >>> learner = make_learner("anil", image_size=28, ways=5, filters=8, generator=0)
    >>> images = torch.randint(0, 256, (2, 5 * (1 + 3), 1, 28, 28), dtype=torch.uint8)
    >>> tuple(learner(TaskBatch(images, TaskGeometry(5, 1, 3))).logits.shape)
    (2, 15, 5)
    """

    def __init__(
        self,
        backbone: nn.Module,
        image_size: int,
        normalisation: Normalisation,
        *,
        ways: int,
        generator: Generator,
        inner_steps: int = 5,
        inner_lr: float | None = None,
        first_order: bool = False,
    ) -> None:
        super().__init__(backbone, image_size, normalisation)
        self.first_order = first_order
        self.inner_steps = inner_steps
        self.head = linear_head(self.feature_size(), ways, generator)
        self.inner_lr = usual_inner_lr(self.head) if inner_lr is None else inner_lr
        check_inner_loop(self.inner_steps, self.inner_lr)

    def forward(self, tasks: TaskBatch) -> Outcome:
        g = tasks.geometry
        require_ways(tasks, self.head.out_features)
        features = self.features(tasks.images)
        support, query = features[:, : g.ways * g.shots], features[:, g.ways * g.shots :]
        adapt = torch.func.vmap(self._adapt, in_dims=(None, 0, None))
        weight, bias = adapt((self.head.weight, self.head.bias), support, tasks.support_labels)
        logits = torch.baddbmm(bias.unsqueeze(1), query, weight.transpose(1, 2))
        return Outcome.of(logits, support.mean(1))

    def _adapt(self, head: Head, support: Tensor, labels: Tensor) -> Head:
        """One task: support [ways*shots, D] to the head after the inner steps."""
        for _ in range(self.inner_steps):
            gradient = torch.func.grad(_loss)(head, support, labels)
            if self.first_order:
                gradient = tuple(part.detach() for part in gradient)
            weight, bias = (p - self.inner_lr * d for p, d in zip(head, gradient, strict=True))
            head = weight, bias
        return head


def usual_inner_lr(head: nn.Linear) -> float:
    """The inner learning rate for a size of features, when none is given."""
    return min(0.1, 5 / head.in_features)


def check_inner_loop(steps: int, lr: float) -> None:
    """Refuse an inner loop that cannot adapt anything."""
    if steps < 1 or not lr > 0:
        raise UsageError(
            f"an inner loop needs at least 1 step and a learning rate above 0, "
            f"not inner_steps={steps}, inner_lr={lr}"
        )


def _loss(head: Head, support: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(support, *head), labels)
