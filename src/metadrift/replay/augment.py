"""Augmented replay: the same stored images never look quite the same twice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.errors import UsageError
from metadrift.tasks import TaskBatch


@dataclass(frozen=True)
class Augment:
    """Changes every image of a batch of tasks on its own, so that its class survives.

    Parameters
    ----------
    shift
        Largest shift in each direction, as a fraction of the image: .107 is 3 of 28 pixels.
    scale
        Largest change of size: .1 draws factors from .9 to 1.1.
    rotation
        Largest angle in degrees.
    flip
        Mirror half of the images left to right. Letters and signs do not survive this.
    border
        What comes in at the side: "edge" repeats the outermost pixels (the ground goes on, white
        or black), "reflect" mirrors the image.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> images = torch.arange(16, dtype=torch.uint8).reshape(1, 1, 1, 4, 4)
    >>> tasks = TaskBatch(images.expand(1, 4, 1, 4, 4), TaskGeometry(2, 1, 1))
    >>> shifted = Augment(shift=0.25)(tasks, np.random.default_rng(0))
    >>> shifted.images.shape == tasks.images.shape, shifted.images.dtype
    (True, torch.uint8)
    """

    shift: float = 0.107
    scale: float = 0.0
    rotation: float = 0.0
    flip: bool = False
    border: Literal["edge", "reflect"] = "edge"

    def __post_init__(self) -> None:
        if not (0 <= self.shift < 0.5 and 0 <= self.scale < 1 and 0 <= self.rotation <= 180):
            raise UsageError(
                f"augmentation needs shift in 0..0.5, scale in 0..1 and rotation in 0..180, "
                f"not {self.shift}, {self.scale}, {self.rotation}"
            )
        if self.border not in ("edge", "reflect"):
            raise UsageError(f"the border is 'edge' or 'reflect', not {self.border!r}")

    def __call__(self, tasks: TaskBatch, rng: np.random.Generator) -> TaskBatch:
        """New tasks of the same shape; the given ones are not touched."""
        images = tasks.images.flatten(0, 1)  # [N, C, H, W]
        if self.scale or self.rotation:
            images = self._turn(images, rng)
        most = round(self.shift * images.shape[-1])
        if most or self.flip:
            images = self._move(images, most, rng)
        return TaskBatch(images.reshape(tasks.images.shape), tasks.geometry)

    def _move(self, images: Tensor, most: int, rng: np.random.Generator) -> Tensor:
        """Whole pixels, no float: each image is one window of itself with a border around it."""
        N, _, H, W = images.shape
        array = images.cpu().numpy()
        if most:
            sides = [(0, 0), (0, 0), (most, most), (most, most)]
            bordered = np.pad(array, sides, mode=self.border)
            windows = np.lib.stride_tricks.sliding_window_view(bordered, (H, W), axis=(2, 3))
            down, right = rng.integers(2 * most + 1, size=(2, N))
            array = windows[np.arange(N), :, down, right]
        if self.flip:
            mirrored = rng.random((N, 1, 1, 1)) < 0.5
            array = np.where(mirrored, array[..., ::-1], array)
        return torch.from_numpy(array).to(images.device)

    def _turn(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        N = len(images)
        factor = 1 + rng.uniform(-self.scale, self.scale, N)
        angle = math.pi / 180 * rng.uniform(-self.rotation, self.rotation, N)
        cos, sin, zero = np.cos(angle) / factor, np.sin(angle) / factor, np.zeros(N)
        affine = np.stack([cos, -sin, zero, sin, cos, zero], axis=1).reshape(N, 2, 3)
        grid = F.affine_grid(
            torch.from_numpy(affine).float().to(images.device),
            list(images.shape),
            align_corners=False,
        )
        padding = "border" if self.border == "edge" else "reflection"
        turned = F.grid_sample(images.float(), grid, padding_mode=padding, align_corners=False)
        return turned.round_().clamp_(0, 255).to(torch.uint8)
