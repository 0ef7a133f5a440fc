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

from metadrift.learners.normalisation import TaskNorm

_A_PIECE = 1 << 18  # numbers that fit a cache beside others: 1 MB of float32
_KEPT = 1 << 23  # numbers up to which pooled images are kept for the backward pass


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
        mean, var = task_moments(z, norm.tasks)
    norm.record(mean * sign, var, z[:, 0].numel() // norm.tasks)
    inputs = z, mean, var + norm.eps, norm.weight * sign, norm.bias
    return cast(Tensor, _NormPoolReLU.apply(*inputs))  # type: ignore[no-untyped-call]


def task_moments(z: Tensor, tasks: int) -> tuple[Tensor, Tensor]:
    """Mean and biased variance [T, 1, C] of each task of z [T*N, C, H, W].

    On a CPU in pieces that fit a cache, put together by the rule for parallel sums: one reading of
    z, no squares stored, and sums too short to lose digits.
    """
    n = len(z) // tasks
    if z.device.type != "cpu":
        var, mean = torch.var_mean(z.view(tasks, n, *z.shape[1:]), (1, 3, 4), correction=0)
        return mean[:, None], var[:, None]
    a_piece = max(1, _A_PIECE // z[0].numel())
    pieces = [piece for task in torch.split(z, n) for piece in torch.split(task, a_piece)]
    each = [torch.batch_norm_update_stats(piece, None, None, 0.0) for piece in pieces]
    m, v = (torch.stack([found[i] for found in each]).view(tasks, -1, z.shape[1]) for i in (0, 1))
    share = m.new_tensor([len(piece) / n for piece in pieces]).view(tasks, -1, 1)
    mean = (share * m).sum(1, keepdim=True)
    return mean, (share * (v + (m - mean).square())).sum(1, keepdim=True)


class _NormPoolReLU(torch.autograd.Function):
    """ReLU(weight * (max_pool(z) - mean) / sqrt(var) + bias), weight >= 0.

    `mean` and `var` are z's own moments; the gradient through them is part of z's gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        p, places = _pooled(z)
        rstd = var.rsqrt()
        scale = weight * rstd
        T = len(mean)
        y = torch.addcmul(bias - mean * scale, p.reshape(T, -1, p.shape[-1]), scale).relu_()
        # Large images are pooled anew for the backward pass: a place is eight bytes.
        kept = (p, places) if p.numel() <= _KEPT else ()
        ctx.save_for_backward(z, y, mean, rstd, weight, *kept)
        B, C, H, W = z.shape
        return y.view(B, H // 2, W // 2, C).permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        z, y, mean, rstd, weight, *kept = ctx.saved_tensors
        T, (B, C, H, W) = len(mean), z.shape
        n, M = B // T, B // T * H * W
        dz = z.new_empty((T, n, H * W, C))
        dy = dy.permute(0, 2, 3, 1).reshape(T, -1, C)
        scale = weight * rstd
        g_sums, g_units = torch.empty_like(mean), torch.empty_like(mean)
        for t in range(T):  # a task at a time stays in the caches
            mine = slice(t * n, (t + 1) * n)
            p, places = (part[mine] for part in kept) if kept else _pooled(z[mine])
            g: Tensor = torch.ops.aten.threshold_backward(dy[t], y[t], 0)
            g_sums[t] = g_sum = g.sum(0, keepdim=True)
            g_p = (g * p.reshape(-1, C)).sum(0, keepdim=True)
            g_units[t] = g_unit = (g_p - mean[t] * g_sum) * rstd[t]  # sum of g * (p - mean) / sd
            # What reaches z through its variance and mean: linear in z, one slope a channel.
            slope = -scale[t] * rstd[t] * g_unit / M
            shift = -scale[t] * g_sum / M - slope * mean[t]
            torch.addcmul(
                shift, z[mine].permute(0, 2, 3, 1).reshape(M, C), slope, out=dz[t].view(M, C)
            )
            # What reaches it through pooling: windows do not overlap, so each index occurs once.
            dz[t].scatter_add_(1, places, g.mul_(scale[t]).view(n, -1, C))
        dz = dz.view(B, H, W, C).permute(0, 3, 1, 2)
        return dz, None, None, g_units.sum((0, 1)), g_sums.sum((0, 1))


def _pooled(z: Tensor) -> tuple[Tensor, Tensor]:
    """The largest of each 2x2 window of z [B, C, H, W] and its place in its image, [B, hw, C]."""
    pooled, places = F.max_pool2d(z, 2, return_indices=True)
    return pooled.flatten(2).transpose(1, 2), places.flatten(2).transpose(1, 2)
