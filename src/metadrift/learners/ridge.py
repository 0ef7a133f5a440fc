"""R2-D2: the head of a task is ridge regression in closed form, on learned features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from metadrift.examples import ExampleKind
from metadrift.learners.base import MetaLearner
from metadrift.learners.classes import class_shares, one_hot
from metadrift.learners.normalisation import Normalisation


class Ridge(MetaLearner):
    """Ridge regression from support features to labels of +1 and -1; any ways, shots, queries.

    The strength of the ridge and the scale of the logits are learned with the backbone. The dual
    form solves one [ways*shots, ways*shots] system per task, for any size of the features.
    The outputs have no bias: a bias that is the same for all classes does not change the softmax.

    References
    ----------
    Bertinetto, Henriques, Torr, Vedaldi: Meta-learning with differentiable closed-form solvers,
    2019.

    Examples
    --------
    >>> from metadrift.learners import make_learner
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> learner = make_learner("ridge", image_size=28, ways=5, filters=8, generator=0)
    >>> images = torch.randint(0, 256, (2, 5 * (1 + 3), 1, 28, 28), dtype=torch.uint8)
    >>> tuple(learner(TaskBatch(images, TaskGeometry(5, 1, 3))).logits.shape)
    (2, 15, 5)
    """

    def __init__(
        self, backbone: nn.Module, example: ExampleKind | int, normalisation: Normalisation
    ) -> None:
        super().__init__(backbone, example, normalisation)
        self.log_strength = nn.Parameter(torch.tensor(0.0))
        self.log_scale = nn.Parameter(torch.tensor(math.log(4.0)))

    def logits(self, support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
        targets = 2.0 * one_hot(labels, ways, support) - 1.0
        # Weighted least squares. All weights are 1 if all classes have the same number of rows.
        weight = (len(labels) * class_shares(labels, ways, support)).sqrt().unsqueeze(1)
        strength = self.log_strength.exp()
        predicted = ridge_predictions(weight * support, weight * targets, query, strength)
        return self.log_scale.exp() * predicted


def ridge_predictions(support: Tensor, targets: Tensor, query: Tensor, strength: Tensor) -> Tensor:
    """Fit [T, n, D] to targets [n, k] with a ridge, and predict [T, m, D]: [T, m, k].

    X_q X^T (X X^T + strength I)^-1 Y equals X_q (X^T X + strength I)^-1 X^T Y.
    """
    n = support.shape[1]
    gram = support @ support.transpose(1, 2)
    system = gram + strength * torch.eye(n, dtype=gram.dtype, device=gram.device)
    dual: Tensor = torch.linalg.solve(system, targets.expand(len(support), -1, -1))
    return (query @ support.transpose(1, 2)) @ dual
