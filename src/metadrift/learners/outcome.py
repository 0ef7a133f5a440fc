"""What a learner says about a batch of tasks: one loss, one set of logits, one embedding a task."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Outcome:
    """The result of one forward pass over T tasks.

    Parameters
    ----------
    loss
        [T], mean cross-entropy over a task's queries; the gradient flows through it.
    logits
        [T, ways*queries, ways], class by class in the order of `TaskBatch.query`.
    embedding
        [T, D], the mean support embedding (o_t of the paper's eq. 1), detached.
    importance
        [T], the paper's G: the norm of the gradient of the loss at the logits, detached.

    Examples
    --------
    >>> sure = torch.tensor([[[9.0, -9.0], [-9.0, 9.0]]])
    >>> unsure = torch.zeros(1, 2, 2)
    >>> outcome = Outcome.of(torch.cat([sure, unsure]), embedding=torch.zeros(2, 3))
    >>> [round(loss, 3) for loss in outcome.loss.tolist()], outcome.accuracy()[0].item()
    ([0.0, 0.693], 1.0)
    >>> [round(g, 3) for g in outcome.importance.tolist()]
    [0.0, 0.5]
    """

    loss: Tensor
    logits: Tensor
    embedding: Tensor
    importance: Tensor

    @classmethod
    def of(cls, logits: Tensor, embedding: Tensor) -> Outcome:
        """Loss and importance from logits [T, ways*queries, ways], with no extra backward pass."""
        tasks, rows, ways = logits.shape
        labels = _labels(logits).repeat(tasks)
        each = F.cross_entropy(logits.reshape(-1, ways), labels, reduction="none")
        loss = each.view(tasks, rows).mean(1)
        return cls(loss, logits, embedding.detach(), logit_gradient_norm(logits))

    def __getitem__(self, tasks: slice) -> Outcome:
        """Some of the tasks, as views: `outcome[2:4]`."""
        return Outcome(
            self.loss[tasks], self.logits[tasks], self.embedding[tasks], self.importance[tasks]
        )

    def accuracy(self) -> Tensor:
        """[T], the share of a task's queries that were named rightly."""
        with torch.no_grad():
            return (self.logits.argmax(-1) == _labels(self.logits)).float().mean(1)


def logit_gradient_norm(logits: Tensor) -> Tensor:
    """||dL/dlogits|| a task, closed form: the gradient is (softmax - one-hot) / rows."""
    with torch.no_grad():
        gradient = logits.softmax(-1)
        gradient -= F.one_hot(_labels(logits), logits.shape[-1])
        return gradient.square().sum((1, 2)).sqrt() / logits.shape[1]


def _labels(logits: Tensor) -> Tensor:
    _, rows, ways = logits.shape
    return torch.arange(ways, device=logits.device).repeat_interleave(rows // ways)
