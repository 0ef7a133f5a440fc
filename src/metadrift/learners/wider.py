"""Wider tasks in training: a query must also be told from the classes of other tasks."""

from __future__ import annotations

import torch
from torch import Tensor


def circle(groups: Tensor) -> tuple[Tensor, Tensor]:
    """Which tasks each task is put together with.

    Gives `order` [T, T], in each row a task itself and then those after it in a circle, and `near`
    [T, T], whether a task of that order is of the same group. `groups` holds a number per task.

    Examples
    --------
    >>> order, near = circle(torch.tensor([7, 7, 8]))
    >>> order.tolist(), near.int().tolist()
    ([[0, 1, 2], [1, 2, 0], [2, 0, 1]], [[1, 1, 0], [1, 0, 1], [1, 0, 0]])
    """
    places = torch.arange(len(groups), device=groups.device)
    order = (places[:, None] + places) % len(groups)
    return order, groups[order] == groups[:, None]


def with_other_classes(
    support: Tensor, labels: Tensor, ways: int, order: Tensor, near: Tensor
) -> tuple[Tensor, Tensor]:
    """Support features [T, n, D] with those of all tasks behind, [T, T*n, D], and their labels.

    Rows of another group are zeros. A task's own classes keep their numbers.
    """
    rows = support[order] * near[:, :, None, None]
    first = ways * torch.arange(len(order), device=labels.device)
    return rows.flatten(1, 2), (first[:, None] + labels).flatten()
