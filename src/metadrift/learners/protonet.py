"""Prototypical networks: a query belongs to the class whose mean support embedding is nearest."""

from __future__ import annotations

from torch import Tensor

from metadrift.learners.base import MetaLearner
from metadrift.learners.classes import class_means


class ProtoNet(MetaLearner):
    """Squared Euclidean distance to class means, no fully connected layer.

    Works with any ways, shots and queries, not only those of training. Support and query go
    through the backbone together, so with `batch` normalisation the statistics are those of all
    images of the task.

    References
    ----------
    Snell, Swersky, Zemel: Prototypical networks for few-shot learning, 2017.

    Examples
    --------
    >>> import torch
    >>> from metadrift.learners import make_learner
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> learner = make_learner("protonet", image_size=28, ways=5, filters=8, generator=0)
    >>> images = torch.randint(0, 256, (2, 5 * (1 + 3), 1, 28, 28), dtype=torch.uint8)
    >>> outcome = learner(TaskBatch(images, TaskGeometry(ways=5, shots=1, queries=3)))
    >>> tuple(outcome.loss.shape), tuple(outcome.logits.shape), tuple(outcome.embedding.shape)
    ((2,), (2, 15, 5), (2, 8))
    """

    most_blocks = 5

    def logits(self, support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
        return -squared_distances(query, class_means(support, labels, ways))


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """[T, n, D] and [T, m, D] to [T, n, m], without a [T, n, m, D] in between."""
    squares = a.square().sum(-1).unsqueeze(2) + b.square().sum(-1).unsqueeze(1)
    return squares - 2 * a @ b.transpose(1, 2)
