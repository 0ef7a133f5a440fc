"""ANIL (almost no inner loop): the features are shared, only a linear head adapts to a task."""

from __future__ import annotations

from torch import Tensor

from metadrift.learners.classes import class_shares, one_hot
from metadrift.learners.inner_loop import InnerLoopLearner, linear


class ANIL(InnerLoopLearner):
    """Features once for support and query; gradient steps on the head alone, task by task.

    `inner_steps`, `inner_lr` and `first_order` are explained at InnerLoopLearner.

    References
    ----------
    Raghu, Raghu, Bengio, Vinyals: Rapid learning or feature reuse?, 2020.

    Examples
    --------
    >>> import torch
    >>> from metadrift.learners import make_learner
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> learner = make_learner("anil", image_size=28, ways=5, filters=8, generator=0)
    >>> images = torch.randint(0, 256, (2, 5 * (1 + 3), 1, 28, 28), dtype=torch.uint8)
    >>> tuple(learner(TaskBatch(images, TaskGeometry(5, 1, 3))).logits.shape)
    (2, 15, 5)
    """

    def logits(self, support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
        return linear(*self.adapted_head(support, labels, ways), query)

    def adapted_head(self, support: Tensor, labels: Tensor, ways: int) -> tuple[Tensor, Tensor]:
        """Support [T, n, D] to each task's head: weights [T, ways, D] and bias [T, ways].

        The gradient of cross-entropy in a linear head is written out: (softmax - one-hot) at the
        logits, times the features. All tasks take a step at once.
        """
        T = len(support)
        weight, bias, rate = self.starting_head(ways)
        weight, bias = weight.expand(T, -1, -1), bias.expand(T, -1)
        targets = one_hot(labels, ways, support)
        share = class_shares(labels, ways, support).unsqueeze(1)
        for _ in range(self.inner_steps):
            slope = share * (linear(weight, bias, support).softmax(-1) - targets)
            gradient = slope.transpose(1, 2) @ support, slope.sum(1)
            if self.first_order:
                gradient = gradient[0].detach(), gradient[1].detach()
            weight = weight - rate * gradient[0]
            bias = bias - rate * gradient[1]
        return weight, bias
