"""Tasks and learners small enough that every test is a matter of milliseconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from metadrift.tasks import TaskBatch, TaskGeometry

MakeTasks = Callable[..., TaskBatch]


@pytest.fixture
def make_tasks() -> MakeTasks:
    """Random tasks: `make_tasks(tasks, ways, shots, queries, channels, size, seed)`."""

    def make(
        tasks: int = 3,
        ways: int = 3,
        shots: int = 2,
        queries: int = 2,
        channels: int = 3,
        size: int = 16,
        seed: int = 0,
    ) -> TaskBatch:
        generator = torch.Generator().manual_seed(seed)
        geometry = TaskGeometry(ways, shots, queries)
        shape = (tasks, geometry.images_a_task, channels, size, size)
        images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        return TaskBatch(images, geometry)

    return make
