"""MAML: every weight adapts to a task by a few gradient steps from a shared starting point."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.learners.backbones import ConvNet
from metadrift.learners.base import with_gradient
from metadrift.learners.classes import class_shares
from metadrift.learners.inner_loop import InnerLoopLearner, linear
from metadrift.learners.normalisation import adapting, task_norms

Weights = dict[str, Tensor]  # each with a leading dimension T: one copy per task


class MAML(InnerLoopLearner):
    """Each task has its own copy of the weights, and all tasks take an inner step at once.

    The gradient of the summed support losses in the copies [T, ...] holds every task's gradient,
    because a task's loss depends on its own copy only.

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
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> learner = make_learner("maml", image_size=28, ways=5, filters=8, generator=0)
    >>> images = torch.randint(0, 256, (2, 5 * (1 + 3), 1, 28, 28), dtype=torch.uint8)
    >>> tuple(learner(TaskBatch(images, TaskGeometry(5, 1, 3))).logits.shape)
    (2, 15, 5)
    """

    def answer(
        self, support: Tensor, labels: Tensor, query: Tensor, ways: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        T, m = query.shape[:2]
        second_order = torch.is_grad_enabled() and not self.first_order
        weights, before = self.adapted(self.inputs(support), labels, ways, second_order)
        weights = {name: w.expand(T, *w.shape[1:]) for name, w in weights.items()}
        # A single query has no variance, so it is normalised together with the support.
        shared = support.expand(T, *support.shape[1:])
        pixels = self.inputs(query) if m > 1 else self.inputs(shared, query)
        features = with_gradient(self._features(weights, pixels, False)[:, -m:])
        return linear(weights["head.weight"], weights["head.bias"], features), before, features

    def adapted(
        self, pixels: Tensor, labels: Tensor, ways: int, second_order: bool
    ) -> tuple[Weights, Tensor]:
        """Each task's weights after the inner steps, and its features before them, detached."""
        T = len(pixels) // len(labels)
        share = class_shares(labels, ways, pixels).repeat(T)
        with torch.enable_grad(), adapting(self.backbone):
            start, rates = self._start(ways)
            weights = {name: w.expand(T, *w.shape) for name, w in start.items()}
            before: Tensor | None = None
            for _ in range(self.inner_steps):
                features = self._features(weights, pixels, second_order)
                before = features.detach() if before is None else before
                logits = linear(weights["head.weight"], weights["head.bias"], features)
                each = F.cross_entropy(logits.flatten(0, 1), labels.repeat(T), reduction="none")
                weights = self._step(weights, rates, (share * each).sum(), second_order)
        assert before is not None
        return weights, before

    def _start(self, ways: int) -> tuple[Weights, dict[str, float]]:
        """The weights that all tasks start from, and the learning rate of each."""
        weight, bias, head_rate = self.starting_head(ways)
        head = {"head.weight": weight, "head.bias": bias}
        start = dict(self.named_parameters()) | head
        return start, {name: head_rate if name in head else self.inner_lr for name in start}

    def _step(
        self, weights: Weights, rates: dict[str, float], loss: Tensor, second_order: bool
    ) -> Weights:
        moving = {name: w for name, w in weights.items() if w.requires_grad}
        gradients = torch.autograd.grad(
            loss, list(moving.values()), create_graph=second_order, materialize_grads=True
        )
        steps = zip(moving.items(), gradients, strict=True)
        return weights | {name: w - rates[name] * g for (name, w), g in steps}

    def _features(self, weights: Weights, pixels: Tensor, twice: bool) -> Tensor:
        """[T*N, 3, H, W] through each task's own backbone: [T, N, D]."""
        T = len(weights["head.bias"])
        prefix = "backbone."
        own = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
        if isinstance(self.backbone, ConvNet):
            with self.mixed():
                return self.full(self.backbone.forward_each(own, pixels, twice))
        for norm in task_norms(self.backbone):
            norm.tasks = 1

        def one(own: Weights, images: Tensor) -> Tensor:
            out: Tensor = torch.func.functional_call(self.backbone, own, (images,))
            return out.flatten(1)

        by_task = pixels.reshape(T, -1, *pixels.shape[1:])
        with self.mixed():
            each: Tensor = torch.func.vmap(one, randomness="different")(own, by_task)
        return self.full(each)
