"""Fresh tasks of vectors and arrays: examples are changed a little each time they are trained on.

Each transform uses a task's own generator. With strength 0 it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from metadrift.replay.transforms import Generators
from metadrift.tasks import TaskBatch

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Span:
    """Adds noise to every example along the differences between the examples of its class.

    The noise has the covariance of the class's examples in the task, times the square of `share`:
    it moves an example where the class itself varies.

    Parameters
    ----------
    share
        The noise's standard deviation, as a share of the class's own.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> rows = torch.tensor([[[0.0, 5.0], [1.0, 5.0], [2.0, 8.0], [2.0, 9.0]]])
    >>> tasks = TaskBatch(rows[:, [0, 2, 1, 3]], TaskGeometry(ways=2, shots=1, queries=1))
    >>> Span(1.0)(tasks, [np.random.default_rng(0)]).examples[0, [0, 2], 1].tolist()
    [5.0, 5.0]
    """

    share: float = 0.5

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        def moved(rows: Rows, rng: np.random.Generator) -> Rows:
            """Of one class [n, D]."""
            apart = rows - rows.mean(0)
            weights = rng.standard_normal((len(rows), len(rows)), np.float32)
            noise: Rows = weights @ apart * np.float32(self.share / max(len(rows) - 1, 1) ** 0.5)
            return rows + noise

        return _class_by_class(tasks, rngs, moved)


@dataclass(frozen=True)
class Mix:
    """Moves every example towards another one of its class.

    Parameters
    ----------
    share
        The largest part of the way. Each example draws its own, uniformly from 0.
    """

    share: float = 0.3

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        def moved(rows: Rows, rng: np.random.Generator) -> Rows:
            other = rows[rng.permutation(len(rows))]
            way = self.share * rng.random((len(rows), 1), np.float32)
            return rows + way * (other - rows)

        return _class_by_class(tasks, rngs, moved)


@dataclass(frozen=True)
class Drop:
    """Sets some numbers to 0, the same ones in all examples of a task: each task sees a part.

    Parameters
    ----------
    share
        The expected share of dropped numbers. The others grow to keep the sum.
    """

    share: float = 0.3

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        rows = tasks.examples.cpu().float()
        kept = np.stack([rng.random(rows.shape[2:]) >= self.share for rng in rngs])
        scale = torch.from_numpy(kept / (1 - self.share)).float()
        return _with(tasks, rows * scale.unsqueeze(1))


def _class_by_class(
    tasks: TaskBatch, rngs: Generators, moved: Callable[[Rows, np.random.Generator], Rows]
) -> TaskBatch:
    label = torch.cat([tasks.support_labels, tasks.query_labels]).cpu().numpy()
    rows = tasks.examples.cpu().float().numpy().copy()
    flat = rows.reshape(*rows.shape[:2], -1)
    for task, rng in zip(flat, rngs, strict=True):
        for c in range(tasks.geometry.ways):
            task[label == c] = moved(task[label == c], rng)
    return _with(tasks, torch.from_numpy(rows))


def _with(tasks: TaskBatch, rows: torch.Tensor) -> TaskBatch:
    # In the type of the task, whose range half numbers must not leave.
    most = torch.finfo(tasks.examples.dtype).max
    return replace(tasks, examples=rows.clamp(-most, most).to(tasks.examples))
