"""Uniform replay: every stored batch has the same probability."""

from __future__ import annotations

import numpy as np

from metadrift.memory import Memory
from metadrift.replay.base import ReplaySampler


class UniformReplay(ReplaySampler):
    """Draws stored batches uniformly, each of weight 1.

    The batches of one draw are distinct if the memory holds enough.

    Examples
    --------
    >>> import torch
    >>> from metadrift.memory import Arrival, Buffer, ReservoirMemory
    >>> from metadrift.examples import Pictures
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = ReservoirMemory(Buffer(3, 1, geometry, Pictures(8, 1)), np.random.default_rng(0))
    >>> rng = np.random.default_rng(1)
    >>> UniformReplay().draw(memory, 2, rng)
    []
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> for _ in range(3):
    ...     slot = memory.offer(Arrival(batch))
    >>> sorted(replay.slot for replay in UniformReplay().draw(memory, 3, rng))
    [0, 1, 2]
    """

    def choose(
        self, memory: Memory, n: int, rng: np.random.Generator
    ) -> tuple[list[int], list[float]]:
        stored = len(memory)
        if stored == 0:
            return [], []
        return rng.choice(stored, n, replace=n > stored).tolist(), [1.0] * n
