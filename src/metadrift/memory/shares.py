"""Learned proportions: each latent domain's share, by how much the learner forgets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.errors import UsageError
from metadrift.memory.importance import ClusterImportance

_LEAST = 1e-6  # an importance below this counts as this


class LearnedShares:
    """For each cluster, a share that grows while the learner forgets it.

    The importance of a cluster's stored batches falls while the learner learns them and rises when
    it forgets them. The need of a cluster is its importance now over the least that it has had: 1
    where nothing was lost. Its share is floor/L + (1-floor) need_i^power / sum_j need_j^power.

    Parameters
    ----------
    floor
        The part that is divided equally among the L clusters, without regard to need.
    power
        The weight of need; 0 gives equal shares.
    rate
        The rate of the moving average of importance. It limits how fast a share can change.
    after
        Observations of a cluster before its least importance counts.

    Examples
    --------
    >>> shares = LearnedShares(floor=0.0, power=1.0, rate=1.0, after=1)
    >>> for label, importance in ((0, 3.0), (1, 2.0), (0, 1.0)):
    ...     shares.observe(label, importance)
    >>> shares.of([0, 1]).tolist()
    [0.5, 0.5]

    The importance of cluster 0 rises to three times the least that it had:

    >>> shares.observe(0, 3.0)
    >>> shares.of([0, 1]).tolist()
    [0.75, 0.25]
    """

    def __init__(
        self, *, floor: float = 0.5, power: float = 2.0, rate: float = 0.05, after: int = 20
    ) -> None:
        if not (0 <= floor <= 1 and power >= 0):
            raise UsageError(
                f"learned shares need floor in 0..1 and power of at least 0, not {floor}, {power}"
            )
        self.floor, self.power, self.after = floor, power, after
        self.importance = ClusterImportance(rate)
        self._observed: dict[int, int] = {}
        self._least: dict[int, float] = {}

    def observe(self, label: int, importance: float) -> None:
        """Add a measurement of a stored batch of this cluster."""
        self.importance.observe(label, importance)
        count = self._observed[label] = self._observed.get(label, 0) + 1
        if count >= self.after:
            now = max(float(self.importance.of([label])[0]), _LEAST)
            self._least[label] = min(self._least.get(label, now), now)

    def of(self, labels: Sequence[int]) -> NDArray[np.float64]:
        """The shares of these clusters, [len(labels)]; they sum to 1."""
        now = np.maximum(self.importance.of(labels), _LEAST)
        least = [self._least.get(label, float(now[i])) for i, label in enumerate(labels)]
        need = (now / np.array(least)) ** self.power
        shares: NDArray[np.float64] = (
            self.floor / len(labels) + (1 - self.floor) * need / need.sum()
        )
        return shares

    def state_dict(self) -> dict[str, Any]:
        return {
            "importance": self.importance.state_dict(),
            "observed": np.array([*self._observed.items()], np.int64).reshape(-1, 2),
            "least_labels": np.array(list(self._least), np.int64),
            "least": np.array(list(self._least.values()), np.float64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.importance.load_state_dict(state["importance"])
        self._observed = dict(np.asarray(state["observed"]).tolist())
        labels = np.asarray(state["least_labels"]).tolist()
        self._least = dict(zip(labels, np.asarray(state["least"]).tolist(), strict=True))
