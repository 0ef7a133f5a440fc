"""MAML: every weight adapts to a task by a few gradient steps from a shared starting point."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from metadrift.errors import UsageError
from metadrift.learners.anil import check_inner_loop, usual_inner_lr
from metadrift.learners.backbones import ConvNet, linear_head
from metadrift.learners.base import MetaLearner, require_ways
from metadrift.learners.normalisation import Normalisation, adapting, task_norms
from metadrift.learners.outcome import Outcome
from metadrift.tasks import TaskBatch

Weights = dict[str, Tensor]  # each with a leading dimension of T: one copy a task


class MAML(MetaLearner):
    """Each task has its own copy of the weights, and all tasks take an inner step at once.

    The gradient of the summed support losses in the copies [T, ...] holds every task's gradient,
    since a task's loss depends on its own copy only.

    With `batch` normalisation support and query each use their own statistics. With `running`
    the inner steps still use those of the support images; the query pass feeds the averages in
    training and uses them in evaluation mode. The embedding is that before adaptation.

    Parameters
    ----------
    ways
        Outputs of the head; every task must have as many classes.
    inner_steps, inner_lr
        Gradient steps on the support images, and their learning rate; left out, it is 5/D but at
        most 0.1, since the change of a logit grows with the size D of the features.
    first_order
        Treat the inner gradients as constants.

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
        if not isinstance(backbone, ConvNet) and normalisation == "running":
            raise UsageError("maml with a backbone of one's own needs normalisation='batch'")
        self.head = linear_head(self.feature_size(), ways, generator)
        self.inner_lr = usual_inner_lr(self.head) if inner_lr is None else inner_lr
        check_inner_loop(self.inner_steps, self.inner_lr)

    def forward(self, tasks: TaskBatch) -> Outcome:
        require_ways(tasks, self.head.out_features)
        T = len(tasks)
        labels = tasks.support_labels.repeat(T)
        support, query = self.pixels(tasks.support), self.pixels(tasks.query)
        second_order = torch.is_grad_enabled() and not self.first_order
        embedding: Tensor | None = None
        with torch.enable_grad(), adapting(self.backbone):
            weights = {name: p.expand(T, *p.shape) for name, p in self.named_parameters()}
            for _ in range(self.inner_steps):
                features = self._features(weights, support, second_order)
                if embedding is None:
                    embedding = features.detach().mean(1)
                logits = _logits(weights, features).flatten(0, 1)
                loss = F.cross_entropy(logits, labels, reduction="sum") * (T / len(labels))
                weights = self._step(weights, loss, second_order)
        assert embedding is not None
        features = self._features(weights, query, second_order)
        return Outcome.of(_logits(weights, features), embedding)

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
