"""Turned replay: a class turned by a quarter of a circle is a class that memory never held."""

from __future__ import annotations

import numpy as np
import torch

from metadrift.errors import UsageError
from metadrift.tasks import TaskBatch


def turned(tasks: TaskBatch, share: float, rng: np.random.Generator) -> TaskBatch:
    """The tasks with about this share of their classes turned, support and query alike.

    A turned class is turned by a quarter, a half or three quarters of a circle, each as likely;
    .75 makes all four directions equally frequent. Images that are not square can only turn by a
    half. The given tasks are not touched.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> images = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 1, 2, 2).expand(1, 4, 1, 2, 2)
    >>> tasks = TaskBatch(images, TaskGeometry(ways=2, shots=1, queries=1))
    >>> turned(tasks, 1.0, np.random.default_rng(0)).images[0, :, 0].flatten(1).tolist()
    [[2, 0, 3, 1], [3, 2, 1, 0], [2, 0, 3, 1], [3, 2, 1, 0]]
    """
    if not 0 <= share <= 1:
        raise UsageError(f"the share of turned classes is within 0..1, not {share}")
    T, ways = len(tasks), tasks.geometry.ways
    height, width = tasks.images.shape[-2:]
    quarters = rng.integers(1, 4, (T, ways)) if height == width else np.full((T, ways), 2)
    quarters *= rng.random((T, ways)) < share
    label = torch.cat([tasks.support_labels, tasks.query_labels])
    of_image = torch.from_numpy(quarters).to(label.device)[:, label]  # [T, images a task]
    images = tasks.images.clone()
    for quarter in np.unique(quarters[quarters > 0]).tolist():
        these = of_image == quarter
        images[these] = torch.rot90(images[these], quarter, (-2, -1))
    return TaskBatch(images, tasks.geometry)
