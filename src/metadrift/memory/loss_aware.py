"""Loss-aware memory: a weighted sample of everything that has arrived, without clusters."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from metadrift.memory.arrival import Arrival
from metadrift.memory.base import Memory
from metadrift.memory.buffer import Buffer

_SMALLEST_WEIGHT = 1e-12


class LossAwareMemory(Memory):
    """Weighted reservoir sampling: harder batches are more likely to be stored.

    Algorithm A-Res: a batch of importance w draws u from (0, 1) and gets the key u^(1/w). The n
    largest keys stay. With a heap this takes O(log n) per offer. Labels have no effect.

    Examples
    --------
    >>> import torch
    >>> from metadrift.examples import Pictures
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = LossAwareMemory(Buffer(2, 1, geometry, Pictures(8, 1)), np.random.default_rng(0))
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> [memory.offer(Arrival(batch, importance=w)) is not None for w in (1.0, 1.0, 0.0, 1e9)]
    [True, True, False, True]

    References
    ----------
    Efraimidis, P. S. and Spirakis, P. G. (2006). Weighted random sampling with a reservoir.
    Information Processing Letters 97(5).
    """

    def __init__(self, buffer: Buffer, rng: np.random.Generator) -> None:
        super().__init__(buffer, rng)
        self._heap: list[tuple[float, int]] = []  # (log of the key, slot), smallest key first

    def admit(self, arrival: Arrival) -> int | None:
        # 1 - random() lies in (0, 1], so the logarithm is finite.
        key = math.log(1 - self.rng.random()) / max(arrival.importance, _SMALLEST_WEIGHT)
        if not self.full:
            slot = len(self)
            heapq.heappush(self._heap, (key, slot))
            return slot
        smallest, slot = self._heap[0]
        if key <= smallest:
            return None
        heapq.heapreplace(self._heap, (key, slot))
        return slot

    def state_dict(self) -> dict[str, Any]:
        keys = np.array([key for key, _ in self._heap], np.float64)
        slots = np.array([slot for _, slot in self._heap], np.int64)
        return {**super().state_dict(), "heap_keys": keys, "heap_slots": slots}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        keys = np.asarray(state["heap_keys"]).tolist()
        slots = np.asarray(state["heap_slots"]).tolist()
        self._heap = list(zip(keys, slots, strict=True))
