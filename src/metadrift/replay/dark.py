"""Task-level dark replay: keep the learner's logits close to those of when a task was stored."""

from __future__ import annotations

from torch import Tensor


def dark_term(logits: Tensor, stored: Tensor, known: Tensor) -> Tensor:
    """Mean squared difference between the query logits now and then, for each task.

    Logits are compared up to a constant for each query, which no prediction depends on (for a
    prototype learner it is the distance of the query from everything).

    Parameters
    ----------
    logits
        float [T, ways*queries, ways], now, with a gradient.
    stored
        The same shape, from `Buffer.get_logits`.
    known
        bool [T]: which tasks have stored logits. The others get 0.

    Returns
    -------
    float [T]

    Examples
    --------
    >>> import torch
    >>> now = torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]], [[1.0, 3.0]]])
    >>> then = torch.tensor([[[11.0, 13.0]], [[0.0, 0.0]], [[0.0, 0.0]]])
    >>> dark_term(now, then, torch.tensor([True, True, False])).tolist()
    [0.0, 1.0, 0.0]
    """
    difference = logits - stored.to(logits, non_blocking=True)
    difference = difference - difference.mean(-1, keepdim=True)
    return difference.square().mean((1, 2)) * known.to(logits, non_blocking=True)
