"""The classes of support rows. Every class has the same weight, with any number of shots."""

from __future__ import annotations

import torch
from torch import Tensor


def one_hot(labels: Tensor, ways: int, like: Tensor) -> Tensor:
    """Labels [n] as ones and zeros [n, ways], of the type of `like`."""
    # F.one_hot reads the labels, which on a GPU would wait for all work before it.
    return (labels.unsqueeze(1) == torch.arange(ways, device=labels.device)).to(like.dtype)


def class_shares(labels: Tensor, ways: int, like: Tensor) -> Tensor:
    """The weight of each row in a mean over classes: [n], adding up to 1/ways in every class.

    Examples
    --------
    >>> class_shares(torch.tensor([0, 1, 1]), 2, torch.zeros(1)).tolist()
    [0.5, 0.25, 0.25]
    """
    members = one_hot(labels, ways, like)
    return (members / (ways * members.sum(0))).sum(1)


def class_means(features: Tensor, labels: Tensor, ways: int) -> Tensor:
    """The mean of each class's rows: [T, n, D] to [T, ways, D].

    Examples
    --------
    >>> rows = torch.tensor([[[6.0], [1.0], [3.0]]])
    >>> class_means(rows, torch.tensor([0, 1, 1]), 2).flatten().tolist()
    [6.0, 2.0]
    """
    members = one_hot(labels, ways, features)
    return (members / members.sum(0)).T @ features
