"""ANIL (almost no inner loop): the features are shared, only a linear head adapts to a task."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.learners.inner_loop import InnerLoopLearner
from metadrift.learners.outcome import Outcome
from metadrift.tasks import TaskBatch


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
        weight, bias = self._adapt(support, tasks.support_labels)
        return Outcome.of(_logits(weight, bias, query), support, query)

    def _adapt(self, support: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Support [T, ways*shots, D] to each task's head: weights [T, ways, D], bias [T, 1, ways].

        The gradient of cross-entropy in a linear head is written out: (softmax - one-hot) / n at
        the logits, times the features. All tasks take a step at once.
        """
        T, n, _ = support.shape
        weight = self.head.weight.expand(T, -1, -1)
        bias = self.head.bias.expand(T, 1, -1)
        targets = F.one_hot(labels, self.head.out_features).to(support.dtype)
        for _ in range(self.inner_steps):
            slope = (_logits(weight, bias, support).softmax(-1) - targets) / n
            gradient = slope.transpose(1, 2) @ support, slope.sum(1, keepdim=True)
            if self.first_order:
                gradient = gradient[0].detach(), gradient[1].detach()
            weight = weight - self.inner_lr * gradient[0]
            bias = bias - self.inner_lr * gradient[1]
        return weight, bias


def _logits(weight: Tensor, bias: Tensor, features: Tensor) -> Tensor:
    return torch.baddbmm(bias, features, weight.transpose(1, 2))
