"""What all meta-learners share: uint8 images in, features of every task out, kept apart."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from metadrift.errors import MetadriftError, UsageError
from metadrift.learners.normalisation import Normalisation, keep_tasks_apart, task_norms
from metadrift.learners.outcome import Outcome
from metadrift.tasks import TaskBatch


class MetaLearner(nn.Module, ABC):
    """Learns from T tasks at once, each on its own: `learner(tasks)` gives an Outcome.

    Parameters
    ----------
    backbone
        Any module that maps [B, 3, H, W] to [B, D]. It is copied, and its BatchNorm layers are
        replaced by ones that keep tasks apart.
    image_size
        H = W of the images, in pixels.
    normalisation
        `batch` or `running`, see TaskNorm.
    """

    def __init__(self, backbone: nn.Module, image_size: int, normalisation: Normalisation) -> None:
        super().__init__()
        self.image_size = image_size
        self.normalisation = normalisation
        self.backbone = keep_tasks_apart(backbone, normalisation)

    @abstractmethod
    def forward(self, tasks: TaskBatch) -> Outcome:
        """Loss, logits, embedding and importance of every task."""

    def pixels(self, images: Tensor) -> Tensor:
        """uint8 [T, N, C, H, W] to floats in [-1, 1]: [T*N, 3, H, W], the channels innermost."""
        if images.dtype != torch.uint8:
            raise MetadriftError(f"images must be uint8 (0..255), not {images.dtype}")
        T, N, _, height, width = images.shape
        if not height == width == self.image_size:
            raise MetadriftError(
                f"the learner was made for images of {self.image_size} px, not {height} x {width}"
            )
        # Channels innermost is how packs store images and how the CPU convolves fastest; grey is
        # repeated by the same copy that changes the type.
        pixels = next(self.parameters()).new_empty((T, N, height, width, 3))
        pixels.copy_(images.permute(0, 1, 3, 4, 2).expand_as(pixels))
        return pixels.mul_(1 / 127.5).sub_(1).flatten(0, 1).permute(0, 3, 1, 2)

    def features(self, images: Tensor) -> Tensor:
        """uint8 [T, N, C, H, W] to [T, N, D], each task with its own normalisation."""
        T, N = images.shape[:2]
        for norm in task_norms(self.backbone):
            norm.tasks = T
        rows: Tensor = self.backbone(self.pixels(images))
        return with_gradient(rows.reshape(T, N, -1))

    def support_and_query(self, tasks: TaskBatch) -> tuple[Tensor, Tensor]:
        """Features [T, ways*shots, D] and [T, ways*queries, D], from one pass over all images."""
        features = self.features(tasks.images)
        n = tasks.geometry.ways * tasks.geometry.shots
        return features[:, :n], features[:, n:]

    def feature_size(self) -> int:
        """D, found by sending two blank images through the backbone."""
        blank = torch.zeros((1, 2, 3, self.image_size, self.image_size), dtype=torch.uint8)
        device = next(self.parameters()).device
        with torch.no_grad():
            return int(self.features(blank.to(device)).shape[2])


def with_gradient(features: Tensor) -> Tensor:
    """The features of a frozen backbone too must say how hard a task is, by their gradient."""
    if torch.is_grad_enabled() and not features.requires_grad:
        features.requires_grad_()
    return features


def pick_device(name: str = "auto") -> torch.device:
    """`auto` takes the accelerator that is there; `cpu`, `cuda` and `mps` insist.

    Examples
    --------
    >>> pick_device("cpu")
    device(type='cpu')
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(device for device, found in there.items() if found))
    if name not in there:
        raise UsageError(f"device must be auto, cpu, cuda or mps, not {name!r}")
    if not there[name]:
        raise UsageError(f"there is no {name} device here; use --device auto or cpu")
    return torch.device(name)


def assert_finite(loss: Tensor, *, where: str) -> None:
    """Refuse a NaN or infinite loss before its gradient can reach the weights.

    Examples
    --------
    >>> assert_finite(torch.tensor([0.1, float("nan")]), where="step 7, learning rate 0.001")
    Traceback (most recent call last):
    metadrift.errors.MetadriftError: the loss of task 1 is nan at step 7, learning rate 0.001
    """
    finite = torch.isfinite(loss.detach())
    if not bool(finite.all()):
        task = int((~finite).flatten().nonzero()[0])
        value = loss.detach().flatten()[task].item()
        raise MetadriftError(f"the loss of task {task} is {value} at {where}")
