"""A small memory with chosen clusters, over images that carry their slot's number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from metadrift.examples import Pictures
from metadrift.memory import Arrival, Buffer, Memory, ReservoirMemory
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=2, shots=1, queries=1)


@pytest.fixture(scope="session")
def memory_of() -> Callable[[Sequence[int]], Memory]:
    """memory_of([0, 0, 1]) has two batches of label 0 and one of label 1."""

    def make(labels: Sequence[int]) -> Memory:
        buffer = Buffer(max(len(labels), 1), 2, GEOMETRY, Pictures(8, 1))
        memory = ReservoirMemory(buffer, np.random.default_rng(0))
        for number, label in enumerate(labels):
            images = torch.full((2, 4, 1, 8, 8), number, dtype=torch.uint8)
            memory.offer(Arrival(TaskBatch(images, GEOMETRY), label))
        return memory

    return make
