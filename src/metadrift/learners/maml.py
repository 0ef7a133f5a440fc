"""MAML: every weight adapts to a task by a few gradient steps from a shared starting point."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.learners.backbones import ConvNet
from metadrift.learners.base import with_gradient
from metadrift.learners.inner_loop import InnerLoopLearner
from metadrift.learners.normalisation import adapting, task_norms
from metadrift.learners.outcome import Outcome
from metadrift.tasks import TaskBatch

Weights = dict[str, Tensor]  # each with a leading dimension of T: one copy a task


class MAML(InnerLoopLearner):
    """Each task has its own copy of the weights, and all tasks take an inner step at once.

    The gradient of the summed support losses in the copies [T, ...] holds every task's gradient,
    since a task's loss depends on its own copy only.

    With `batch` normalisation support and query each use their own statistics. With `running`
    the inner steps still use those of the support images; the query pass feeds the averages in
    training and uses them in evaluation mode. The embedding is that before adaptation, and the
    importance is the gradient at the query images alone.

    `inner_steps`, `inner_lr` and `first_order` are explained at InnerLoopLearner.

    References
    ----------
    Finn, Abbeel, Levine: Model-agnostic meta-learning, 2017.

    Examples
    --------
    >>> from metadrift.learners import make_learner
    >>> from metadrift.tasks import TaskGeometry
    >>> learner = make_learner("maml", image_size=28, ways=5, filters=8, generator=0)
    >>> images = torch.randint(0, 256, (2, 5 * (1 + 3), 1, 28, 28), dtype=torch.uint8)
    >>> tuple(learner(TaskBatch(images, TaskGeometry(5, 1, 3))).logits.shape)
    (2, 15, 5)
    """

    def forward(self, tasks: TaskBatch) -> Outcome:
        self.require_fit(tasks)
        T = len(tasks)
        labels = tasks.support_labels.repeat(T)
        support, query = self.pixels(tasks.support), self.pixels(tasks.query)
        second_order = torch.is_grad_enabled() and not self.first_order
        before: Tensor | None = None
        with torch.enable_grad(), adapting(self.backbone):
            weights = {name: p.expand(T, *p.shape) for name, p in self.named_parameters()}
            for _ in range(self.inner_steps):
                features = self._features(weights, support, second_order)
                if before is None:
                    before = features.detach()
                logits = _logits(weights, features).flatten(0, 1)
                loss = F.cross_entropy(logits, labels, reduction="sum") * (T / len(labels))
                weights = self._step(weights, loss, second_order)
        assert before is not None
        features = with_gradient(self._features(weights, query, second_order))
        return Outcome.of(_logits(weights, features), before, features)

    def _step(self, weights: Weights, loss: Tensor, second_order: bool) -> Weights:
        moving = {name: w for name, w in weights.items() if w.requires_grad}
        gradients = torch.autograd.grad(
            loss, list(moving.values()), create_graph=second_order, materialize_grads=True
        )
        steps = zip(moving.items(), gradients, strict=True)
        return weights | {name: w - self.inner_lr * g for (name, w), g in steps}

    def _features(self, weights: Weights, pixels: Tensor, twice: bool) -> Tensor:
        """[T*N, 3, H, W] through each task's own backbone: [T, N, D]."""
        T = len(weights["head.bias"])
        prefix = "backbone."
        own = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
        if isinstance(self.backbone, ConvNet):
            return self.backbone.forward_each(own, pixels, twice)
        for norm in task_norms(self.backbone):
            norm.tasks = 1

        def one(own: Weights, images: Tensor) -> Tensor:
            out: Tensor = torch.func.functional_call(self.backbone, own, (images,))
            return out.flatten(1)

        by_task = pixels.reshape(T, -1, *pixels.shape[1:])
        each: Tensor = torch.func.vmap(one, randomness="different")(own, by_task)
        return each


def _logits(weights: Weights, features: Tensor) -> Tensor:
    bias, weight = weights["head.bias"], weights["head.weight"]
    return torch.baddbmm(bias.unsqueeze(1), features, weight.transpose(1, 2))
