"""The blocks of the network with separate weights per task, as MAML needs them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.learners.normalisation import TaskNorm, moments
from metadrift.learners.normpool import fused_block, rising, scaled_relu

# Of a block: its normalisation, and each task's filters [T, ...], weight [T, C] and bias [T, C].
OwnBlock = tuple[TaskNorm, Tensor, Tensor, Tensor]


def task_by_task(blocks: Iterable[OwnBlock], images: Tensor, tasks: int) -> Tensor:
    """[T*N, 3, H, W] to [T*N, D] with fused blocks, which have no second derivative."""
    each = list(images.chunk(tasks))
    for norm, filters, weight, bias in blocks:
        count = each[0][:, 0].numel()
        found = [
            fused_block(x, f, w, b, norm, tasks=1)
            for x, f, w, b in zip(each, filters, weight, bias, strict=True)
        ]
        each = [y for y, _, _ in found]
        mean, var = torch.cat([m for _, m, _ in found]), torch.cat([v for _, _, v in found])
        norm.record(mean, var, count)
    return torch.cat(each).flatten(1)


def side_by_side(blocks: Iterable[OwnBlock], images: Tensor, tasks: int) -> Tensor:
    """[T*N, 3, H, W] to [T*N, D], with the tasks side by side in the channels.

    One grouped convolution serves all tasks. The statistics of a task are those of its channels.
    It uses torch's own operations only, which have second derivatives.
    """
    x = images.reshape(tasks, -1, *images.shape[1:]).transpose(0, 1).flatten(1, 2)
    x = x.contiguous(memory_format=torch.channels_last)
    for norm, filters, weight, bias in blocks:
        sign = rising(weight)
        turned = filters * sign[:, :, None, None, None]
        z = F.conv2d(x, turned.flatten(0, 1), padding=1, groups=tasks)
        if norm.uses_averages:
            mean, var = (average.expand(tasks, -1, -1) for average in norm.averages())
        else:
            rows = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
            mean, var = (part.view(tasks, 1, -1) for part in moments(rows[None]))
            mean = mean * sign.unsqueeze(1)
            norm.record(mean, var, len(rows))
        mean, weight = (mean[:, 0] * sign).flatten(), (weight * sign).flatten()
        x = scaled_relu(z, mean, var.flatten(), weight, bias.flatten(), norm.eps)
    return x.reshape(len(x), tasks, -1).transpose(0, 1).flatten(0, 1)
