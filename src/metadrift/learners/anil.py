"""ANIL (almost no inner loop): the features are shared, only a linear head adapts to a task."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.learners.inner_loop import InnerLoopLearner
from metadrift.learners.outcome import Outcome
from metadrift.tasks import TaskBatch

Head = tuple[Tensor, Tensor]  # weight [ways, D] and bias [ways]


class ANIL(InnerLoopLearner):
    """Features once for support and query; gradient steps on the head alone, task by task.

    `inner_steps`, `inner_lr` and `first_order` are explained at InnerLoopLearner.

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

    def forward(self, tasks: TaskBatch) -> Outcome:
        self.require_fit(tasks)
        support, query = self.support_and_query(tasks)
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


def _loss(head: Head, support: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(support, *head), labels)
