"""What a few-shot task is: its geometry, and a batch of tasks as one tensor.

A task asks: here are `shots` labelled examples of each of `ways` classes; name the class of each
query. Nothing in a TaskBatch says which domain it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import check_examples


@dataclass(frozen=True)
class TaskGeometry:
    """How many classes a task has, and how many support and query examples per class."""

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
    examples
        [T, ways*(shots+queries), *example]. An example is a picture, uint8 [C, H, W] with C 1 or 3,
        or an array of any shape, float16 or float32. Of each task first all support examples, class
        by class, then all queries, class by class. Any strides will do.
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

    examples: Tensor
    geometry: TaskGeometry
    context: Tensor | None = None

    def __post_init__(self) -> None:
        examples, g = self.examples, self.geometry
        if not isinstance(examples, Tensor):
            raise MetadriftError(
                f"task images must be a torch tensor, not a {type(examples).__name__}; "
                "torch.from_numpy(array) makes one of an array"
            )
        if not isinstance(g, TaskGeometry):
            raise MetadriftError(
                f"the geometry of tasks must be a TaskGeometry, such as TaskGeometry(ways=5, "
                f"shots=1, queries=10), not a {type(g).__name__}"
            )
        check_examples(examples)
        if examples.shape[1] != g.images_per_task:
            raise MetadriftError(
                f"a {g.ways}-way {g.shots}-shot task with {g.queries} queries per class has "
                f"{g.images_per_task} examples, but {examples.shape[1]} were given"
            )
        context = self.context
        if context is not None and (
            context.ndim != 2 or len(context) != len(examples) or not context.is_floating_point()
        ):
            raise MetadriftError(
                f"the context of {len(examples)} tasks must be floats [{len(examples)}, K], "
                f"not {context.dtype} {list(context.shape)}"
            )

    def __len__(self) -> int:
        return self.examples.shape[0]

    @property
    def images(self) -> Tensor:
        """The examples of tasks of pictures; for what only pictures can have."""
        if self.examples.dtype != torch.uint8:
            raise UsageError(
                "these tasks are arrays of floats, and what was asked for is for pictures"
            )
        return self.examples

    @property
    def support(self) -> Tensor:
        """[T, ways*shots, *example], a view."""
        return self.examples[:, : self.geometry.ways * self.geometry.shots]

    @property
    def query(self) -> Tensor:
        """[T, ways*queries, *example], a view."""
        return self.examples[:, self.geometry.ways * self.geometry.shots :]

    @property
    def support_labels(self) -> Tensor:
        """int64 [ways*shots], the same for every task: 0..0, 1..1, ..."""
        return self._labels(self.geometry.shots)

    @property
    def query_labels(self) -> Tensor:
        """int64 [ways*queries], the same for every task: 0..0, 1..1, ..."""
        return self._labels(self.geometry.queries)

    def _labels(self, each: int) -> Tensor:
        ways = torch.arange(self.geometry.ways, device=self.examples.device)
        return ways.repeat_interleave(each)

    def to(self, device: torch.device | str) -> TaskBatch:
        """The same tasks on another device."""
        return replace(self, examples=self.examples.to(device, non_blocking=True))

    def __getitem__(self, tasks: slice) -> TaskBatch:
        """Some of the tasks, as a view: `batch[2:4]`."""
        context = None if self.context is None else self.context[tasks]
        return TaskBatch(self.examples[tasks], self.geometry, context)

    @staticmethod
    def concatenate(batches: Sequence[TaskBatch]) -> TaskBatch:
        """All tasks of several batches of one geometry, in order."""
        first = batches[0]
        shape = first.examples.shape[2:]
        for other in batches[1:]:
            if other.geometry != first.geometry or other.examples.shape[2:] != shape:
                raise MetadriftError(
                    f"tasks of different shape cannot be joined: {first.geometry} with examples "
                    f"{list(shape)} and {other.geometry} with examples "
                    f"{list(other.examples.shape[2:])}"
                )
        if len(batches) == 1:
            return first
        contexts = [b.context for b in batches if b.context is not None]
        context = torch.cat(contexts) if len(contexts) == len(batches) else None
        return TaskBatch(torch.cat([b.examples for b in batches]), first.geometry, context)
