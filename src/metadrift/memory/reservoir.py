"""Reservoir memory: a uniform sample of everything that has arrived."""

from __future__ import annotations

from metadrift.memory.arrival import Arrival
from metadrift.memory.base import Memory


class ReservoirMemory(Memory):
    """Vitter's algorithm R: after N batches each one is stored with the same probability n/N.

    The batch of step t takes place j, drawn uniformly from 0..t, if that place exists. Labels are
    kept but have no effect.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from metadrift.memory import Arrival, Buffer
    >>> from metadrift.examples import Pictures
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = ReservoirMemory(Buffer(3, 1, geometry, Pictures(8, 1)), np.random.default_rng(0))
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> [memory.offer(Arrival(batch)) for _ in range(4)]
    [0, 1, 2, None]
    >>> len(memory), memory.steps, memory.counts()
    (3, 4, {0: 3})

    References
    ----------
    Vitter, J. S. (1985). Random sampling with a reservoir. ACM TOMS 11(1).
    """

    def admit(self, arrival: Arrival) -> int | None:
        if not self.full:
            return len(self)
        place = int(self.rng.integers(self.steps + 1))
        return place if place < self.capacity else None
