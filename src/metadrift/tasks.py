"""What a few-shot task is: its geometry, and a batch of tasks as one uint8 tensor.

A task asks: here are `shots` labelled images of each of `ways` classes; name the class of each
query image. Nothing in a TaskBatch says which domain it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from metadrift.errors import MetadriftError


@dataclass(frozen=True)
class TaskGeometry:
    """How many classes a task has, and how many support and query images per class."""

    ways: int = 5
    shots: int = 1
    queries: int = 10

    def __post_init__(self) -> None:
        if self.ways < 2 or self.shots < 1 or self.queries < 1:
            raise MetadriftError(
                f"a task needs at least 2 ways, 1 shot and 1 query per class, "
                f"not ways={self.ways}, shots={self.shots}, queries={self.queries}"
            )

    @property
    def images_per_class(self) -> int:
        return self.shots + self.queries

    @property
    def images_per_task(self) -> int:
        return self.ways * self.images_per_class


@dataclass(frozen=True)
class TaskBatch:
    """T tasks of the same geometry.

    Parameters
    ----------
    images
        uint8 [T, ways*(shots+queries), C, H, W] with C 1 or 3. Of each task first all support
        images, class by class, then all query images, class by class. Any strides will do.
    geometry
        Ways, shots and queries.
    context
        Optional: a float vector per task [T, K] of what else is known about it, such as the names
        of its classes. Only detection looks at it. It must not name the domain.

    Examples
    --------
    >>> images = torch.zeros(2, 5 * (1 + 3), 1, 28, 28, dtype=torch.uint8)
    >>> tasks = TaskBatch(images, TaskGeometry(ways=5, shots=1, queries=3))
    >>> len(tasks), tuple(tasks.support.shape), tuple(tasks.query.shape)
    (2, (2, 5, 1, 28, 28), (2, 15, 1, 28, 28))
    >>> tasks.query_labels.tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    """

    images: Tensor
    geometry: TaskGeometry
    context: Tensor | None = None

    def __post_init__(self) -> None:
        images, g = self.images, self.geometry
        if not isinstance(images, Tensor):
            raise MetadriftError(
                f"task images must be a torch tensor, not a {type(images).__name__}; "
                "torch.from_numpy(array) makes one of an array"
            )
        if images.dtype != torch.uint8:
            raise MetadriftError(f"task images must be uint8 (0..255), not {images.dtype}")
        if images.ndim != 5 or images.shape[2] not in (1, 3):
            raise MetadriftError(
                "task images must be [tasks, images, channels (1 or 3), height, width], "
                f"not {list(images.shape)}"
            )
        if images.shape[1] != g.images_per_task:
            raise MetadriftError(
                f"a {g.ways}-way {g.shots}-shot task with {g.queries} queries per class has "
                f"{g.images_per_task} images, but {images.shape[1]} were given"
            )
        context = self.context
        if context is not None and (
            context.ndim != 2 or len(context) != len(images) or not context.is_floating_point()
        ):
            raise MetadriftError(
                f"the context of {len(images)} tasks must be floats [{len(images)}, K], "
                f"not {context.dtype} {list(context.shape)}"
            )

    def __len__(self) -> int:
        return self.images.shape[0]

    @property
    def support(self) -> Tensor:
        """uint8 [T, ways*shots, C, H, W], a view."""
        return self.images[:, : self.geometry.ways * self.geometry.shots]

    @property
    def query(self) -> Tensor:
        """uint8 [T, ways*queries, C, H, W], a view."""
        return self.images[:, self.geometry.ways * self.geometry.shots :]

    @property
    def support_labels(self) -> Tensor:
        """int64 [ways*shots], the same for every task: 0..0, 1..1, ..."""
        return self._labels(self.geometry.shots)

    @property
    def query_labels(self) -> Tensor:
        """int64 [ways*queries], the same for every task: 0..0, 1..1, ..."""
        return self._labels(self.geometry.queries)

    def _labels(self, each: int) -> Tensor:
        ways = torch.arange(self.geometry.ways, device=self.images.device)
        return ways.repeat_interleave(each)

    def to(self, device: torch.device | str) -> TaskBatch:
        """The same tasks on another device."""
        return replace(self, images=self.images.to(device, non_blocking=True))

    def __getitem__(self, tasks: slice) -> TaskBatch:
        """Some of the tasks, as a view: `batch[2:4]`."""
        context = None if self.context is None else self.context[tasks]
        return TaskBatch(self.images[tasks], self.geometry, context)

    @staticmethod
    def concatenate(batches: Sequence[TaskBatch]) -> TaskBatch:
        """All tasks of several batches of one geometry, in order."""
        first = batches[0]
        for other in batches[1:]:
            if other.geometry != first.geometry or other.images.shape[2:] != first.images.shape[2:]:
                raise MetadriftError(
                    f"tasks of different shape cannot be joined: {first.geometry} with images "
                    f"{list(first.images.shape[2:])} and {other.geometry} with images "
                    f"{list(other.images.shape[2:])}"
                )
        if len(batches) == 1:
            return first
        contexts = [b.context for b in batches if b.context is not None]
        context = torch.cat(contexts) if len(contexts) == len(batches) else None
        return TaskBatch(torch.cat([b.images for b in batches]), first.geometry, context)
