"""Convolution, per-task normalisation, 2x2 max pooling and ReLU in as few passes as can be.

At full resolution a block only convolves, takes the moments and pools; scaling, shifting and the
ReLU happen after pooling, on a quarter of the numbers. That is the same function: pooling commutes
with a rising affine map and with the ReLU, and a falling one (negative weight) is made rising by
turning the sign of the filter, which normalisation turns back.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from metadrift.learners.normalisation import TaskNorm, moments


def norm_pool_relu(x: Tensor, filters: Tensor, norm: TaskNorm) -> Tensor:
    """ReLU(max_pool(norm(conv(x)))), for x [T*N, C, H, W] with the channels innermost."""
    sign = torch.where(norm.weight < 0, -1.0, 1.0).to(x.dtype)
    z = F.conv2d(x, filters * sign[:, None, None, None], padding=1)
    z = z.contiguous(memory_format=torch.channels_last)  # no copy where the kernel kept the layout
    if norm.uses_averages:
        mean, var = norm.averages()
        scale = norm.weight * sign * (var + norm.eps).rsqrt()
        pooled = F.max_pool2d(z, 2).permute(0, 2, 3, 1)
        y = torch.addcmul(norm.bias - mean * sign * scale, pooled, scale)
        return F.relu(y).permute(0, 3, 1, 2)
    with torch.no_grad():
        rows = norm.rows(z)
        mean, var = moments(rows)
    norm.record(mean * sign, var, rows.shape[1])
    inputs = z, mean, var + norm.eps, norm.weight * sign, norm.bias
    return cast(Tensor, _NormPoolReLU.apply(*inputs))  # type: ignore[no-untyped-call]


class _NormPoolReLU(torch.autograd.Function):
    """ReLU(weight * (max_pool(z) - mean) / sqrt(var) + bias), weight >= 0.

    `mean` and `var` are z's own moments; the gradient through them is part of z's gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        pooled, indices = F.max_pool2d(z, 2, return_indices=True)
        rstd = var.rsqrt()
        scale = weight * rstd
        p = _rows(pooled, len(mean))
        y = torch.addcmul(bias - mean * scale, p, scale).relu_()
        ctx.save_for_backward(z, indices, p, y, mean, rstd, weight)
        return _images(y, pooled)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        z, indices, p, y, mean, rstd, weight = ctx.saved_tensors
        rows = _rows(z, len(mean))
        M = rows.shape[1]
        g: Tensor = torch.ops.aten.threshold_backward(_rows(dy, len(mean)), y, 0)
        g_sum = g.sum(1, keepdim=True)
        g_unit = ((g * p).sum(1, keepdim=True) - mean * g_sum) * rstd  # sum of g * (p - mean) / sd
        scale = weight * rstd
        # What reaches z through its variance and mean: linear in z, one slope a task and channel.
        slope = -scale * rstd * g_unit / M
        dz = torch.addcmul(-scale * g_sum / M - slope * mean, rows, slope)
        # What reaches it through pooling: windows do not overlap, so each index occurs once.
        B, C = z.shape[:2]
        where = indices.permute(0, 2, 3, 1).reshape(B, -1, C)
        dz.view(B, -1, C).scatter_add_(1, where, (g * scale).view(B, -1, C))
        return _images(dz, z), None, None, g_unit.sum((0, 1)), g_sum.sum((0, 1))


def _rows(images: Tensor, tasks: int) -> Tensor:
    """[T*N, C, H, W] to [T, N*H*W, C], a view when the channels are innermost."""
    return images.permute(0, 2, 3, 1).reshape(tasks, -1, images.shape[1])


def _images(rows: Tensor, like: Tensor) -> Tensor:
    """[T, N*H*W, C] back to the [T*N, C, H, W] of `like`, with the channels innermost."""
    B, C, H, W = like.shape
    return rows.view(B, H, W, C).permute(0, 3, 1, 2)
