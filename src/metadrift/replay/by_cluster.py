"""The base class of samplers that draw by latent domain."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.memory import Memory
from metadrift.replay.base import ReplaySampler

Floats = NDArray[np.float64]


class ByCluster(ReplaySampler):
    """Draws a cluster, then one of its batches uniformly. Draws are independent.

    A sampler implements `chances`. One that learns from measurements also extends `observe`,
    `state_dict` and `load_state_dict`.

    Parameters
    ----------
    every
        Draws after which a cluster that was not observed is stale (the paper's s); 0: never.
    batches
        The number of batches of a stale cluster to measure (the paper's R).
    """

    def __init__(self, *, every: int = 25, batches: int = 2) -> None:
        self.every = every
        self.batches = batches
        self._draws = 0
        self._observed: dict[int, int] = {}

    @abstractmethod
    def chances(self, memory: Memory) -> tuple[list[int], Floats, Floats]:
        """For each stored cluster: label, probability, and the weight of a batch drawn from it."""

    def choose(
        self, memory: Memory, n: int, rng: np.random.Generator
    ) -> tuple[list[int], list[float]]:
        if len(memory) == 0:
            return [], []
        self._draws += 1
        labels, q, weights = self.chances(memory)
        self.about_to_draw(memory, q, weights)
        picked = rng.choice(len(labels), n, p=q).tolist()
        slots = []
        for i in picked:
            members = memory.slots_of(labels[i])
            slots.append(members[int(rng.integers(len(members)))])
        return slots, weights[picked].tolist()

    def about_to_draw(self, memory: Memory, q: Floats, weights: Floats) -> None:
        """Take note of the chances of a draw; most samplers need not."""

    def probabilities(self, memory: Memory) -> dict[int, float]:
        labels, q, _ = self.chances(memory)
        return dict(zip(labels, q.tolist(), strict=True))

    def observe(self, label: int, importance: float) -> None:
        self._observed[label] = self._draws

    def stale(self, memory: Memory, rng: np.random.Generator) -> list[int]:
        """Up to R random batches of each cluster that was not observed recently."""
        chosen: list[int] = []
        for label, stored in memory.counts().items() if self.every else ():
            if label in self._observed and self._draws - self._observed[label] < self.every:
                continue
            members = memory.slots_of(label)
            picked = rng.choice(stored, min(self.batches, stored), replace=False).tolist()
            chosen += [members[i] for i in picked]
        return chosen

    def state_dict(self) -> dict[str, Any]:
        return {
            "observed": np.array([*self._observed.items()], np.int64).reshape(-1, 2),
            "draws": self._draws,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._observed = dict(np.asarray(state["observed"]).tolist())
        self._draws = int(state["draws"])
