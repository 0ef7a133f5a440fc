"""Batch normalisation that keeps tasks apart: a task's loss does not depend on its neighbours."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metadrift.errors import UsageError

Normalisation = Literal["batch", "running"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)


class TaskNorm(nn.Module):
    """Batch normalisation with one mean and variance for each task of the batch.

    The rows of the input are images of `tasks` tasks, image-major: row n*T + t is image n of
    task t. Seen as [N, T*C, ...] that is one native batch normalisation with T*C channels.

    Parameters
    ----------
    channels
        C, the channels of the input [N*T, C, ...].
    normalisation
        `batch`: always the statistics of the task's own images. `running`: the same in training,
        which also feeds running averages; in evaluation mode the averages are used instead.

    Examples
    --------
    >>> norm = TaskNorm(1, "batch")
    >>> norm.tasks = 2
    >>> x = torch.tensor([[0.0], [10.0], [2.0], [30.0]])  # images 0 and 1 of two tasks
    >>> norm(x).flatten().round().tolist()
    [-1.0, -1.0, 1.0, 1.0]
    """

    running_mean: Tensor | None
    running_var: Tensor | None

    def __init__(
        self,
        channels: int,
        normalisation: Normalisation = "batch",
        eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.tasks = 1
        self.frozen = False
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        running = normalisation == "running"
        self.register_buffer("running_mean", torch.zeros(channels) if running else None)
        self.register_buffer("running_var", torch.ones(channels) if running else None)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N*T, C, ...] to the same shape."""
        if self.running_mean is not None and not self.training:
            averages = self.running_mean, self.running_var
            return F.batch_norm(x, *averages, self.weight, self.bias, False, 0.0, self.eps)
        T, C = self.tasks, x.shape[1]
        # Momentum 1 makes the kernel leave the batch's own statistics in these.
        mean: Tensor | None = None
        var: Tensor | None = None
        if self._collects():
            mean, var = x.new_zeros(T * C), x.new_ones(T * C)
        weight, bias = self.weight.repeat(T), self.bias.repeat(T)
        by_task = x.reshape(x.shape[0] // T, T * C, *x.shape[2:])
        y = F.batch_norm(by_task, mean, var, weight, bias, True, 1.0, self.eps)
        if mean is not None and var is not None:
            self._collect(mean.view(T, C).mean(0), var.view(T, C).mean(0))
        return y.reshape(x.shape)

    def _collects(self) -> bool:
        # A pass without gradient is a scoring pass, never a training step.
        running = self.running_mean is not None
        return running and self.training and not self.frozen and torch.is_grad_enabled()

    def _collect(self, mean: Tensor, var: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var, self.momentum)


def keep_tasks_apart(module: nn.Module, normalisation: Normalisation) -> nn.Module:
    """A copy of a module in which every BatchNorm layer is a TaskNorm with the same weights."""
    if normalisation not in NORMALISATIONS:
        raise UsageError(
            f"normalisation must be one of {', '.join(NORMALISATIONS)}, not {normalisation!r}"
        )
    module = copy.deepcopy(module)
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return _from_batch_norm(module, normalisation)
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
                setattr(parent, name, _from_batch_norm(child, normalisation))
    return module


def task_norms(module: nn.Module) -> list[TaskNorm]:
    """The TaskNorm layers inside a module."""
    return [layer for layer in module.modules() if isinstance(layer, TaskNorm)]


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Inside, no pass changes a running average: for gradients taken only to score tasks."""
    norms = task_norms(module)
    before = [norm.frozen for norm in norms]
    try:
        for norm in norms:
            norm.frozen = True
        yield
    finally:
        for norm, was in zip(norms, before, strict=True):
            norm.frozen = was


def _from_batch_norm(
    layer: nn.modules.batchnorm._BatchNorm, normalisation: Normalisation
) -> TaskNorm:
    momentum = 0.1 if layer.momentum is None else layer.momentum
    norm = TaskNorm(layer.num_features, normalisation, layer.eps, momentum)
    with torch.no_grad():
        if layer.affine:
            norm.weight.copy_(layer.weight)
            norm.bias.copy_(layer.bias)
        if norm.running_mean is not None and layer.running_mean is not None:
            assert norm.running_var is not None
            assert layer.running_var is not None
            norm.running_mean.copy_(layer.running_mean)
            norm.running_var.copy_(layer.running_var)
    return norm.train(layer.training)
