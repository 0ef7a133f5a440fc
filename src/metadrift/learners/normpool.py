"""Convolution, per-task normalisation, 2x2 max pooling and ReLU in as few passes as possible.

At full resolution a block only convolves, takes the moments and pools. Scaling, shifting and the
ReLU come after pooling, on a quarter of the numbers. The function is the same: pooling commutes
with the ReLU and with an affine map of positive slope. A negative slope is made positive by
changing the sign of the filter, which normalisation undoes.

Work at full resolution is done on a few images at a time, while they are in the caches. Images are
float32 or, inside torch.autocast, bfloat16. Moments and all other sums are float32 in both cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from metadrift.learners.normalisation import TaskNorm

_PIECE = 1 << 20  # bytes of convolved images that go through the caches together


def norm_pool_relu(x: Tensor, filters: Tensor, norm: TaskNorm) -> Tensor:
    """ReLU(max_pool(norm(conv(x)))), for x [T*N, C, H, W] with the channels innermost."""
    if x.device.type != "cpu":
        return F.relu(F.max_pool2d(norm(F.conv2d(x, filters, padding=1)), 2))
    y, mean, var = fused_block(x, filters, norm.weight, norm.bias, norm, norm.tasks)
    norm.record(mean, var, x[:, 0].numel() // norm.tasks)
    return y


def fused_block(
    x: Tensor, filters: Tensor, weight: Tensor, bias: Tensor, norm: TaskNorm, tasks: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The same on a CPU, with other weights than the layers' own, and the moments [T, 1, C]."""
    if torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu"))
    sign = rising(weight)
    filters, weight = filters * sign[:, None, None, None], weight * sign
    if norm.uses_averages:
        mean, var = norm.averages()
        y = scaled_relu(_convolved(x, filters), mean[0] * sign, var[0], weight, bias, norm.eps)
        return y, mean, var
    inputs = x, filters, weight, bias, tasks, norm.eps
    y, mean, var = cast(tuple[Tensor, ...], _Block.apply(*inputs))  # type: ignore[no-untyped-call]
    return y, (mean * sign).unsqueeze(1), var.unsqueeze(1)


def rising(weight: Tensor) -> Tensor:
    """The signs of a layer's weights. Filters times these signs make all slopes positive."""
    return torch.where(weight < 0, -1.0, 1.0).to(weight.dtype)


def scaled_relu(
    z: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> Tensor:
    """ReLU(weight * (max_pool(z) - mean) / sqrt(var + eps) + bias), weight >= 0, in torch's ops."""
    scale = weight * (var + eps).rsqrt()
    pooled = _innermost(F.max_pool2d(z, 2))
    y = torch.addcmul(bias - mean * scale, pooled, scale).to(z.dtype)
    return F.relu(y).permute(0, 3, 1, 2)


class _Block(torch.autograd.Function):
    """ReLU(weight * (max_pool(z) - mean) / sqrt(var + eps) + bias) of z = conv(x); weight >= 0.

    Also returns the moments `mean` and `var` [T, C] of each task's z. The gradient through them is
    part of the gradient at z.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, filters: Tensor, weight: Tensor, bias: Tensor, tasks: int, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        (B, _, H, W), C = x.shape, len(filters)
        # Pixels need no gradient and have few channels: in bfloat16 to convolve them again, while
        # they are in the caches, is faster than to keep and read the largest z of the network.
        again = x.dtype == torch.bfloat16 and not ctx.needs_input_grad[0]
        z = None if again else _convolved(x, filters)
        p = x.new_empty((B, H // 2, W // 2, C)).permute(0, 3, 1, 2)
        # float32 averages make the sums float32 too; a momentum of 0 does not change them.
        still = torch.zeros_like(weight), torch.ones_like(weight)
        each, found, sizes = B // tasks, [], list[int]()
        pieces = _pieces(B, tasks, C * H * W * x.element_size())
        for z_piece, p_piece in zip(
            _z(z, x, filters, pieces), p.split_with_sizes(pieces), strict=True
        ):
            for part in z_piece.split_with_sizes(_of_one_task(z_piece, each)):
                found.append(torch.batch_norm_update_stats(part, *still, 0.0))
                sizes.append(part.shape[0])
            torch.maximum(*_columns(torch.maximum(*_rows(z_piece))), out=_innermost(p_piece))
        mean, var = _put_together(found, sizes, tasks)
        rstd = (var + eps).rsqrt()
        y = _affine(p, weight * rstd, bias - mean * weight * rstd, relu=True)
        ctx.save_for_backward(x, filters, z, p, y, mean, rstd, weight)
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, filters, z, p, y, mean, rstd, weight = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        g, g_unit, g_sum = _before_relu(dy, y, p, mean, rstd, weight)
        # The gradient of z through its variance and mean: linear in z, one slope per channel.
        T, scale = mean.shape[0], weight * rstd
        (B, _, H, W), C = x.shape, len(filters)
        each, M = B // T, B // T * H * W
        slope = -(scale * rstd * g_unit) / M
        shift = -(scale * g_sum) / M - slope * mean
        # If the images need no gradient (pixels), the gradient of z is never stored as a whole.
        whole, sizes = ctx.needs_input_grad[0], _pieces(B, T, C * H * W * x.element_size())
        room = x.new_empty((B if whole else max(sizes), H, W, C)).permute(0, 3, 1, 2)
        dx: Tensor | None = None
        dfilters, low, done = torch.zeros_like(filters), filters.to(x.dtype), 0
        split = zip(_z(z, x, filters, sizes), _split(sizes, x, p, g), strict=True)
        for z_piece, (x_piece, p_piece, g_piece) in split:
            n = z_piece.shape[0]
            of = slice(done // each, -(-(done + n) // each))  # the tasks that the piece is of
            dz = room[done : done + n] if whole else room[:n]
            _affine(z_piece, slope[of], shift[of], dz)
            _add_unpooled(g_piece, z_piece, p_piece, dz)
            if not whole:
                dfilters += _convolution_backward(dz, x_piece, low, (False, True, False))[1]
            done += n
        if whole:
            dx, dfilters = _convolution_backward(room, x, low, (True, True, False))[:2]
        return dx, dfilters.to(filters.dtype), g_unit.sum(0), g_sum.sum(0), None, None


def _add_unpooled(g: Tensor, z: Tensor, p: Tensor, dz: Tensor) -> None:
    """Add g, at pooled resolution, to dz wherever z was the largest of its window.

    Among equal values the first column wins, then the first row. The code compares and multiplies
    the bits as integers (0 or 1 times g), which the CPU does several at a time. torch's `where`,
    scatter and 8-byte indices are slower.
    """
    first, second = _rows(z)
    larger = torch.maximum(first, second)
    by_column = torch.empty_like(larger, dtype=_BITS[z.element_size()])
    left, right = _columns(by_column)
    torch.eq(_bits(_columns(larger)[0]), _bits(_innermost(p)), out=left)
    left *= _bits(_innermost(g))
    torch.bitwise_xor(_bits(_innermost(g)), left, out=right)
    by_row = torch.eq(_bits(first), _bits(larger), out=torch.empty_like(by_column))
    by_row *= by_column
    by_column ^= by_row
    for place, found in zip(_rows(dz), (by_row, by_column), strict=True):
        place += found.view(dz.dtype)


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(x: Tensor) -> Tensor:
    return x.view(_BITS[x.element_size()])


def _innermost(x: Tensor) -> Tensor:
    """[B, C, H, W] as [B, H, W, C]."""
    return x.permute(0, 2, 3, 1)


def _rows(z: Tensor) -> tuple[Tensor, Tensor]:
    """The upper and the lower rows of all windows of z [B, C, H, W]: [B, H/2, W, C]."""
    _, _, H, W = z.shape
    inside = _innermost(z)[:, : H - H % 2, : W - W % 2]
    return inside[:, ::2], inside[:, 1::2]


def _columns(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The left and the right columns of all windows, from [B, H/2, W, C]."""
    return rows[:, :, ::2], rows[:, :, 1::2]


def _convolved(x: Tensor, filters: Tensor) -> Tensor:
    z = F.conv2d(x, filters.to(x.dtype), padding=1)
    return z.contiguous(memory_format=torch.channels_last)  # no copy where it is so already


def _convolution_backward(
    dz: Tensor, x: Tensor, filters: Tensor, mask: tuple[bool, bool, bool]
) -> tuple[Tensor, ...]:
    one = 1, 1
    found: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
        dz, x, filters, None, one, one, one, False, (0, 0), 1, mask
    )
    return found


def _put_together(
    found: list[tuple[Tensor, Tensor]], sizes: list[int], tasks: int
) -> tuple[Tensor, Tensor]:
    """Mean and biased variance [T, C] of each task from those of its pieces.

    Uses the rule for parallel variance: no squares are stored, and short sums lose no digits.
    """
    m, v = (torch.stack(part).view(tasks, -1, len(part[0])) for part in zip(*found, strict=True))
    share = m.new_tensor(sizes).view(tasks, -1, 1) * (tasks / sum(sizes))
    mean = (share * m).sum(1, keepdim=True)
    return mean[:, 0], (share * (v + (m - mean).square())).sum(1)


def _before_relu(
    dy: Tensor, y: Tensor, p: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient at y to those at p, as if the moments were constants, weight and bias.

    The latter are the sums over a task's places of g * (p - mean) / sd and of g, each [T, C], where
    g is the gradient before the ReLU. A task at a time, while it is in the caches.
    """
    found, at_p = [], torch.empty_like(p)
    tasks = _split(_divided(len(p), len(p) // len(mean)), dy, y, p, at_p)
    for (dy_one, y_one, p_one, at_p_one), m, r in zip(tasks, mean, rstd, strict=True):
        g = torch.ops.aten.threshold_backward(dy_one, y_one, 0)
        inputs = weight, None, None, m, r, True, 0.0, (False, True, True)
        found.append(torch.ops.aten.native_batch_norm_backward(g, p_one, *inputs)[1:])
        _affine(g, (weight * r)[None], torch.zeros_like(r)[None], at_p_one)
    unit, total = (torch.stack(part) for part in zip(*found, strict=True))
    return at_p, unit, total


def _affine(
    x: Tensor, scale: Tensor, shift: Tensor, out: Tensor | None = None, relu: bool = False
) -> Tensor:
    """x * scale + shift of each channel, with the scale and shift [T, C] of each task.

    The arithmetic is float32 where x is bfloat16.
    """
    out = torch.empty_like(x) if out is None else out
    if x.dtype != torch.bfloat16:
        T, C = scale.shape
        rows, into = (_innermost(part).view(T, -1, C) for part in (x, out))
        torch.addcmul(shift.unsqueeze(1), rows, scale.unsqueeze(1), out=into)
        return out.relu_() if relu else out
    # Only torch's normalisation kernel reads and writes bfloat16 and computes in float32.
    mean, var, nothing = torch.zeros_like(scale[0]), torch.ones_like(scale[0]), scale.new_empty(0)
    kept = {"save_mean": nothing, "save_invstd": nothing}
    each = _divided(x.shape[0], x.shape[0] // scale.shape[0])
    for (rows, into), a, b in zip(_split(each, x, out), scale, shift, strict=True):
        torch.ops.aten.native_batch_norm.out(
            rows, a, b, mean, var, False, 0.0, 0.0, out=into, **kept
        )
        if relu:
            into.relu_()
    return out


def _split(sizes: list[int], *images: Tensor) -> zip[tuple[Tensor, ...]]:
    return zip(*(part.split_with_sizes(sizes) for part in images), strict=True)


def _z(z: Tensor | None, x: Tensor, filters: Tensor, sizes: list[int]) -> Iterator[Tensor]:
    """The convolved images in pieces: of the whole z, or computed anew from x."""
    if z is not None:
        return iter(z.split_with_sizes(sizes))
    return (_convolved(piece, filters) for piece in x.split_with_sizes(sizes))


def _pieces(images: int, tasks: int, size: int) -> list[int]:
    """The numbers of images, of `size` bytes, that fit the caches: of a task, or whole tasks."""
    n = images // tasks
    most = max(1, _PIECE // size)
    if most >= n:
        return _divided(images, most // n * n)
    return _divided(n, most) * tasks


def _of_one_task(piece: Tensor, n: int) -> list[int]:
    return _divided(piece.shape[0], min(n, piece.shape[0]))


def _divided(total: int, most: int) -> list[int]:
    whole, rest = divmod(total, most)
    return [most] * whole + [rest] * (rest > 0)
