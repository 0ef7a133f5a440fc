"""PETS: adaptive sampling of stored tasks, more often where gradients are large."""

from __future__ import annotations

from typing import Any

import numpy as np

from metadrift.errors import UsageError
from metadrift.memory import ClusterImportance, Memory
from metadrift.replay.by_cluster import ByCluster, Floats


class PETS(ByCluster):
    """Draws a cluster by size and gradient norm, then one of its batches uniformly.

    Cluster i is drawn with probability q_i = (1-uniform) Z_i + uniform n_i/n, where
    Z_i = n_i G_i / sum_j n_j G_j (the paper's cluster-level form of its optimal q*), and its
    batch has the weight (n_i/n)/q_i. The weighted gradient is then unbiased for the mean gradient
    of the memory, and no weight exceeds 1/uniform (10).

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
    every, batches
        When a cluster is measured again; see `ByCluster`.

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
        super().__init__(every=every, batches=batches)
        self.weighted = weighted
        self.uniform = uniform if weighted else 0.0
        self.variance_ratio = 1.0
        self.importance = ClusterImportance(rate)  # G_i

    def about_to_draw(self, memory: Memory, q: Floats, weights: Floats) -> None:
        G = self.importance.of(list(memory.counts()))
        uniform = float(_shares(memory) @ G**2)
        self.variance_ratio = float(q @ (weights * G) ** 2) / uniform if uniform > 0 else 1.0

    def chances(self, memory: Memory) -> tuple[list[int], Floats, Floats]:
        labels, share = list(memory.counts()), _shares(memory)
        Z = share * self.importance.of(labels)
        Z = Z / Z.sum() if Z.sum() > 0 else share
        q = (1 - self.uniform) * Z + self.uniform * share
        return labels, q, share / q if self.weighted else np.ones_like(q)

    def observe(self, label: int, importance: float) -> None:
        super().observe(label, importance)
        self.importance.observe(label, importance)

    def numbers(self) -> dict[str, float]:
        return {"variance_ratio": self.variance_ratio}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "importance": self.importance.state_dict(),
            "variance_ratio": self.variance_ratio,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.importance.load_state_dict(state["importance"])
        self.variance_ratio = float(state["variance_ratio"])


def _shares(memory: Memory) -> Floats:
    """n_i/n of each stored cluster."""
    return np.array(list(memory.counts().values()), np.float64) / len(memory)
