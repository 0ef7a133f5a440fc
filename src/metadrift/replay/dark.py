"""Task-level dark replay: keep the logits close to those from when a task was stored."""

from __future__ import annotations

from torch import Tensor


def dark_term(logits: Tensor, stored: Tensor, known: Tensor) -> Tensor:
    """Mean squared difference between the current and the stored query logits, for each task.

    Logits are compared up to a constant per query, because no prediction depends on it.

    Parameters
    ----------
    logits
        float [T, ways*queries, ways], the current ones, with a gradient.
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
