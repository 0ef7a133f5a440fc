"""Whole gradients of single tasks; one backward pass per task.

Use it for analysis. Training uses `Outcome.importance`, which comes with the forward pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from metadrift.learners.base import MetaLearner
from metadrift.learners.normalisation import frozen_statistics
from metadrift.tasks import TaskBatch


def task_gradients(learner: MetaLearner, tasks: TaskBatch) -> Tensor:
    """The gradient of each task's loss in all P weights: [T, P], in the order of parameters().

    Changes neither `.grad` nor the running averages.

    Examples
    --------
    >>> from metadrift.learners import make_learner
    >>> from metadrift.tasks import TaskGeometry
    >>> learner = make_learner("protonet", image_size=8, ways=2, filters=4, generator=0)
    >>> images = torch.randint(0, 256, (3, 2 * (1 + 2), 1, 8, 8), dtype=torch.uint8)
    >>> tasks = TaskBatch(images, TaskGeometry(2, 1, 2))
    >>> weights = sum(p.numel() for p in learner.parameters())
    >>> task_gradients(learner, tasks).shape == (3, weights)
    True
    """
    parameters = [p for p in learner.parameters() if p.requires_grad]
    rows: list[Tensor] = []
    with torch.enable_grad(), frozen_statistics(learner):
        for t in range(len(tasks)):
            loss = learner(tasks[t : t + 1]).loss.sum()
            gradient = torch.autograd.grad(loss, parameters, materialize_grads=True)
            rows.append(torch.cat([part.flatten() for part in gradient]))
    return torch.stack(rows)
