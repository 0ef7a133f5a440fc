"""Batch normalisation that keeps tasks apart: a task's loss does not depend on its neighbours."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from metadrift.errors import UsageError

Normalisation = Literal["batch", "running"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)


class TaskNorm(nn.Module):
    """Batch normalisation with one mean and variance for each task of the batch.

    The rows of the input are the images of `tasks` tasks, one task after the other.

    Parameters
    ----------
    channels
        C, the channels of the input [T*N, C, ...].
    normalisation
        `batch`: always the statistics of the task's own images. `running`: the same in training,
        which also feeds running averages; in evaluation mode the averages are used instead.

    Examples
    --------
    >>> norm = TaskNorm(1, "batch")
    >>> norm.tasks = 2
    >>> x = torch.tensor([[0.0], [2.0], [10.0], [30.0]])  # two images each of two tasks
    >>> norm(x).flatten().round().tolist()
    [-1.0, 1.0, -1.0, 1.0]
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
        self.adapting = False
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        running = normalisation == "running"
        self.register_buffer("running_mean", torch.zeros(channels) if running else None)
        self.register_buffer("running_var", torch.ones(channels) if running else None)

    def forward(self, x: Tensor) -> Tensor:
        """x: [T*N, C, ...] to the same shape."""
        rows = self.rows(x)
        if self.uses_averages:
            mean, var = self.averages()
        else:
            mean, var = moments(rows)
            self.record(mean, var, rows.shape[1])
        scale = self.weight * (var + self.eps).rsqrt()
        y = torch.addcmul(self.bias - mean * scale, rows, scale).to(x.dtype)
        return y.reshape(x.movedim(1, -1).shape).movedim(-1, 1)

    def rows(self, x: Tensor) -> Tensor:
        """[T*N, C, ...] as [T, M, C]: all positions of all images of a task; a view if it can."""
        return x.movedim(1, -1).reshape(self.tasks, -1, x.shape[1])

    @property
    def uses_averages(self) -> bool:
        """True if this pass uses the running averages instead of the task's own statistics."""
        return self.running_mean is not None and not self.training and not self.adapting

    @property
    def records(self) -> bool:
        """True if this pass updates the running averages."""
        # A pass without gradient scores tasks; it is not a training step.
        held = self.frozen or self.adapting or not torch.is_grad_enabled()
        return self.running_mean is not None and self.training and not held

    def averages(self) -> tuple[Tensor, Tensor]:
        """The running mean and variance, each [1, 1, C]."""
        assert self.running_mean is not None
        assert self.running_var is not None
        return self.running_mean[None, None], self.running_var[None, None]

    def record(self, mean: Tensor, var: Tensor, count: int) -> None:
        """Update the running averages with the mean of the tasks' moments [T, 1, C]."""
        if not self.records:
            return
        assert self.running_mean is not None
        assert self.running_var is not None
        unbiased = count / max(count - 1, 1)
        self.running_mean.lerp_(mean.detach().mean((0, 1)), self.momentum)
        self.running_var.lerp_(var.detach().mean((0, 1)) * unbiased, self.momentum)


def moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of [T, M, C] over M, each [T, 1, C]; at least float32."""
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    mean = rows.mean(1, keepdim=True)
    var = rows.square().mean(1, keepdim=True) - mean.square()
    return mean, var.clamp(min=0)


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
    """Within this context no pass changes a running average. For gradients that score tasks."""
    norms = task_norms(module)
    before = [norm.frozen for norm in norms]
    try:
        for norm in norms:
            norm.frozen = True
        yield
    finally:
        for norm, was in zip(norms, before, strict=True):
            norm.frozen = was


@contextmanager
def adapting(module: nn.Module) -> Iterator[None]:
    """Within this context every pass uses the task's own statistics and changes no average."""
    norms = task_norms(module)
    try:
        for norm in norms:
            norm.adapting = True
        yield
    finally:
        for norm in norms:
            norm.adapting = False


def _from_batch_norm(
    layer: nn.modules.batchnorm._BatchNorm, normalisation: Normalisation
) -> TaskNorm:
    momentum = 0.1 if layer.momentum is None else layer.momentum
    norm = TaskNorm(layer.num_features, normalisation, layer.eps, momentum)
    like = layer.weight if layer.affine else layer.running_mean
    if like is not None:
        norm.to(like)
    norm.requires_grad_(layer.affine)
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
