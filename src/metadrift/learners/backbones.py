"""The convolutional networks of the paper: blocks of convolution, normalisation, ReLU, pooling."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from metadrift.errors import UsageError
from metadrift.learners.normalisation import Normalisation, TaskNorm
from metadrift.learners.normpool import norm_pool_relu
from metadrift.learners.own_weights import OwnBlock, side_by_side, task_by_task


class ConvNet(nn.Module):
    """`blocks` of 3x3 convolution, normalisation, ReLU and 2x2 max pooling.

    Parameters
    ----------
    blocks, filters
        Depth and width. `blocks_for(image_size)` gives the depth for an image size.
    normalisation
        `batch` or `running`, see TaskNorm.
    generator
        The random generator for the weights.

    Examples
    --------
    >>> import torch
    >>> net = ConvNet(4, 8, "batch", torch.Generator().manual_seed(0))
    >>> tuple(net(torch.zeros(10, 3, 28, 28)).shape)
    (10, 8)
    """

    def __init__(
        self, blocks: int, filters: int, normalisation: Normalisation, generator: Generator
    ) -> None:
        super().__init__()
        widths = [3, *[filters] * blocks]
        self.blocks = nn.ModuleList(
            _Block(widths[b], widths[b + 1], normalisation) for b in range(blocks)
        )
        for block in self.blocks:
            assert isinstance(block, _Block)
            nn.init.kaiming_normal_(block.conv.weight, nonlinearity="relu", generator=generator)

    def forward(self, images: Tensor) -> Tensor:
        """[T*N, 3, H, W], task after task, to [T*N, D]."""
        for block in self.blocks:
            images = block(images)
        return images.flatten(1)

    def forward_each(self, weights: dict[str, Tensor], images: Tensor, twice: bool) -> Tensor:
        """[T*N, 3, H, W] to [T, N, D], with separate weights [T, ...] for each task, by name.

        `twice` is True if second derivatives are needed.
        """
        blocks: list[OwnBlock] = []
        for b, block in enumerate(self.blocks):
            assert isinstance(block, _Block)
            names = (f"blocks.{b}.{name}" for name in ("conv.weight", "norm.weight", "norm.bias"))
            filters, weight, bias = (weights[name] for name in names)
            blocks.append((block.norm, filters, weight, bias))
        tasks = len(filters)
        through = task_by_task if images.device.type == "cpu" and not twice else side_by_side
        return through(blocks, images, tasks).reshape(tasks, len(images) // tasks, -1)


class _Block(nn.Module):
    def __init__(self, inputs: int, filters: int, normalisation: Normalisation) -> None:
        super().__init__()
        # No bias: the normalisation that follows would remove it.
        self.conv = nn.Conv2d(inputs, filters, 3, padding=1, bias=False)
        self.norm = TaskNorm(filters, normalisation)

    def forward(self, x: Tensor) -> Tensor:
        return norm_pool_relu(x, self.conv.weight, self.norm)


def blocks_for(image_size: int, most: int) -> int:
    """The depth for an image size: five blocks from 64 px, else four, fewer for tiny images."""
    if image_size < 2:
        raise UsageError(f"images of {image_size} px are too small; use at least 2 px")
    return min(most, 5 if image_size >= 64 else 4, image_size.bit_length() - 1)


def linear_head(inputs: int, ways: int, generator: Generator) -> nn.Linear:
    """A linear layer near zero, so that the first inner step depends on the support only."""
    with torch.device("meta"):  # on a device, Linear would draw from the global generator
        head = nn.Linear(inputs, ways)
    head.to_empty(device="cpu")
    nn.init.normal_(head.weight, std=0.01, generator=generator)
    nn.init.zeros_(head.bias)
    return head
