"""PETS: adaptive sampling of stored tasks, more often where gradients are large."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.errors import UsageError
from metadrift.memory import ClusterImportance, Memory
from metadrift.replay.base import ReplaySampler

_Floats = NDArray[np.float64]


class PETS(ReplaySampler):
    """Draws a cluster by size and gradient norm, then one of its batches uniformly.

    Cluster i is drawn with probability q_i = (1-uniform) Z_i + uniform n_i/n, where
    Z_i = n_i G_i / sum_j n_j G_j (the paper's cluster-level form of its optimal q*), and its
    batch has the weight (n_i/n)/q_i. The weighted gradient is then unbiased for the mean gradient
    of the memory, and no weight exceeds 1/uniform (10). Draws are independent, with replacement.

    G_i is a `ClusterImportance`: the root of a moving average of squared importance, because the
    best q_i for draws by cluster is proportional to n_i times the root mean square gradient norm.
    `observe` updates it with every replayed batch, at no extra cost. `stale` names a few batches of
    each cluster that was not observed during the last `every` draws, for a forward pass.

    Parameters
    ----------
    weighted
        False is Algorithm 3 as printed: q_i = Z_i and no weights, which is biased towards clusters
        with large gradients.
    uniform
        The part of the draws that is uniform.
    rate
        The rate of the moving average.
    every
        Draws after which a cluster that was not observed is stale (the paper's s); 0: never.
    batches
        The number of batches of a stale cluster to measure (the paper's R).

    Attributes
    ----------
    variance_ratio
        At the last draw, the expected squared norm of the drawn gradient over that of uniform
        replay, estimated from the G_i. If it is below 1, the ratio of variances is lower still,
        because the squared mean is subtracted from both.

    Examples
    --------
    >>> import torch
    >>> from metadrift.memory import Arrival, Buffer, ReservoirMemory
    >>> from metadrift.examples import Pictures
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = ReservoirMemory(Buffer(4, 1, geometry, Pictures(8, 1)), np.random.default_rng(0))
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> for label in (0, 0, 0, 1):
    ...     slot = memory.offer(Arrival(batch, label))
    >>> pets = PETS(uniform=0.0)
    >>> pets.observe(0, 1.0)
    >>> pets.observe(1, 3.0)
    >>> pets.probabilities(memory)
    {0: 0.5, 1: 0.5}
    >>> sorted({replay.weight for replay in pets.draw(memory, 50, np.random.default_rng(1))})
    [0.5, 1.5]
    >>> pets.variance_ratio
    0.75
    """

    def __init__(
        self,
        *,
        weighted: bool = True,
        uniform: float = 0.1,
        rate: float = 0.1,
        every: int = 25,
        batches: int = 2,
    ) -> None:
        if not (0 <= uniform <= 1 and 0 < rate <= 1):
            raise UsageError(
                f"PETS needs uniform in 0..1 and rate in 0..1, not {uniform} and {rate}"
            )
        self.weighted = weighted
        self.uniform = uniform if weighted else 0.0
        self.every = every
        self.batches = batches
        self.variance_ratio = 1.0
        self.importance = ClusterImportance(rate)  # G_i
        self._draws = 0
        self._observed: dict[int, int] = {}

    def choose(
        self, memory: Memory, n: int, rng: np.random.Generator
    ) -> tuple[list[int], list[float]]:
        if len(memory) == 0:
            return [], []
        self._draws += 1
        labels, share, G, q = self._clusters(memory)
        weight = share / q if self.weighted else np.ones_like(q)
        uniform = float(share @ G**2)
        self.variance_ratio = float(q @ (weight * G) ** 2) / uniform if uniform > 0 else 1.0
        picked = rng.choice(len(labels), n, p=q).tolist()
        slots = []
        for i in picked:
            members = memory.slots_of(labels[i])
            slots.append(members[int(rng.integers(len(members)))])
        return slots, weight[picked].tolist()

    def probabilities(self, memory: Memory) -> dict[int, float]:
        labels, _, _, q = self._clusters(memory)
        return dict(zip(labels, q.tolist(), strict=True))

    def observe(self, label: int, importance: float) -> None:
        self.importance.observe(label, importance)
        self._observed[label] = self._draws

    def numbers(self) -> dict[str, float]:
        return {"variance_ratio": self.variance_ratio}

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

    def _clusters(self, memory: Memory) -> tuple[list[int], _Floats, _Floats, _Floats]:
        """For each stored cluster: label, n_i/n, G_i, q_i."""
        counts = memory.counts()
        labels = list(counts)
        share = np.array(list(counts.values()), np.float64) / len(memory)
        G = self.importance.of(labels)
        Z = share * G
        Z = Z / Z.sum() if Z.sum() > 0 else share
        return labels, share, G, (1 - self.uniform) * Z + self.uniform * share

    def state_dict(self) -> dict[str, Any]:
        return {
            "importance": self.importance.state_dict(),
            "observed": np.array([*self._observed.items()], np.int64).reshape(-1, 2),
            "draws": self._draws,
            "variance_ratio": self.variance_ratio,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.importance.load_state_dict(state["importance"])
        self._observed = dict(np.asarray(state["observed"]).tolist())
        self._draws = int(state["draws"])
        self.variance_ratio = float(state["variance_ratio"])
