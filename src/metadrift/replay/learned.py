"""Replay by learned proportions: more of a latent domain while the learner loses it."""

from __future__ import annotations

from typing import Any

import numpy as np

from metadrift.memory import LearnedShares, Memory
from metadrift.replay.by_cluster import ByCluster, Floats


class LearnedReplay(ByCluster):
    """Draws a cluster by its learned share (`LearnedShares`), each batch with weight 1.

    PETS weighs its draws, so that the objective stays the mean over the memory. This sampler does
    not: the share of a cluster is its part of the objective.

    Parameters
    ----------
    floor, power
        Of the shares.
    every, batches
        See `ByCluster`.

    Examples
    --------
    >>> import torch
    >>> from metadrift.examples import Pictures
    >>> from metadrift.memory import Arrival, Buffer, ReservoirMemory
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = ReservoirMemory(Buffer(4, 1, geometry, Pictures(8, 1)), np.random.default_rng(0))
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> for label in (0, 0, 0, 1):
    ...     slot = memory.offer(Arrival(batch, label))
    >>> LearnedReplay().probabilities(memory)
    {0: 0.5, 1: 0.5}
    """

    def __init__(
        self, *, floor: float = 0.5, power: float = 2.0, every: int = 25, batches: int = 2
    ) -> None:
        super().__init__(every=every, batches=batches)
        self.shares = LearnedShares(floor=floor, power=power)

    def chances(self, memory: Memory) -> tuple[list[int], Floats, Floats]:
        labels = list(memory.counts())
        return labels, self.shares.of(labels), np.ones(len(labels))

    def observe(self, label: int, importance: float) -> None:
        super().observe(label, importance)
        self.shares.observe(label, importance)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"shares": self.shares.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.shares.load_state_dict(state["shares"])
