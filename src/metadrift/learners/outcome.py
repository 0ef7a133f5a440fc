"""The result of a learner on a batch of tasks: loss, logits, embedding and importance per task."""

from __future__ import annotations

import math
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
        [T], the paper's G: the norm of the gradient of the loss at the embeddings, detached. NaN
        under torch.no_grad, where there is no gradient.

    Examples
    --------
    Two tasks of two classes with one query each. The learner separates the first task's classes
    well, the second's not:

    >>> support = torch.tensor([[[3.0], [-3.0]], [[0.1], [-0.1]]], requires_grad=True)
    >>> query = support.detach().clone().requires_grad_()
    >>> outcome = Outcome.of(query @ support.transpose(1, 2), support, query)
    >>> [round(loss, 3) for loss in outcome.loss.tolist()], outcome.accuracy().tolist()
    ([0.0, 0.683], [1.0, 1.0])
    >>> [round(g, 3) for g in outcome.importance.tolist()]
    [0.0, 0.099]
    """

    loss: Tensor
    logits: Tensor
    embedding: Tensor
    importance: Tensor

    @classmethod
    def of(cls, logits: Tensor, support: Tensor, query: Tensor, ways: int | None = None) -> Outcome:
        """Make it from logits [T, ways*queries, ways] and the embeddings they were computed from.

        Logits may have more columns than `ways`: classes of other tasks, which count in the loss.

        `support` [T, ways*shots, D] and `query` [T, ways*queries, D] must be the very tensors that
        the logits were computed from. A detached tensor adds nothing to the importance.
        """
        tasks, rows, columns = logits.shape
        own = logits[..., : ways or columns]
        labels = _labels(own).repeat(tasks)
        each = F.cross_entropy(logits.reshape(-1, columns), labels, reduction="none")
        loss = each.view(tasks, rows).mean(1)
        return cls(loss, own, support.detach().mean(1), _importance(loss, [support, query]))

    def __getitem__(self, tasks: slice) -> Outcome:
        """Some of the tasks, as views: `outcome[2:4]`."""
        return Outcome(
            self.loss[tasks], self.logits[tasks], self.embedding[tasks], self.importance[tasks]
        )

    def accuracy(self) -> Tensor:
        """[T], the share of a task's queries that were classified correctly."""
        return accuracy_of(self.logits)


@torch.no_grad()
def accuracy_of(logits: Tensor) -> Tensor:
    """[T], from logits [T, ways*queries, ways] of queries class by class."""
    return (logits.argmax(-1) == _labels(logits)).float().mean(1)


def _importance(loss: Tensor, embeddings: list[Tensor]) -> Tensor:
    """||dL/dembeddings|| per task: a backward pass through the head only, never the backbone.

    The norm at the logits would need no backward pass, but it says too little: with the same
    error, a task whose classes lie close together changes the weights less than another one.
    """
    at = [part for part in embeddings if part.requires_grad]
    if not (loss.requires_grad and at):
        return torch.full_like(loss, math.nan, requires_grad=False)
    gradients = torch.autograd.grad(loss.sum(), at, retain_graph=True, materialize_grads=True)
    return torch.cat([part.flatten(1) for part in gradients], 1).square().sum(1).sqrt()


def _labels(logits: Tensor) -> Tensor:
    _, rows, ways = logits.shape
    return torch.arange(ways, device=logits.device).repeat_interleave(rows // ways)
