"""Wider tasks in training: a query also competes with the classes of other tasks."""

from __future__ import annotations

import torch
from torch import Tensor


def circle(groups: Tensor) -> tuple[Tensor, Tensor]:
    """The tasks that each task is combined with.

    Returns `order` [T, T]: each row has the task itself, then those after it in a circle. And
    `near` [T, T]: True if that task is in the same group. `groups` holds a number per task.

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
    """Support features [T, n, D] followed by those of all tasks, [T, T*n, D], and their labels.

    Rows of other groups are zeros. A task's own classes keep their numbers.
    """
    rows = support[order] * near[:, :, None, None]
    first = ways * torch.arange(len(order), device=labels.device)
    return rows.flatten(1, 2), (first[:, None] + labels).flatten()
