"""The current difficulty of each latent domain's stored batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ClusterImportance:
    """For each cluster, the root of a moving average of its stored batches' squared importance.

    Squares, because a variance is a sum of squares: see PETS.

    Parameters
    ----------
    rate
        The rate of the moving average.

    Examples
    --------
    >>> norms = ClusterImportance(rate=0.5)
    >>> for label, importance in ((0, 3.0), (1, 1.0), (1, 7.0)):
    ...     norms.observe(label, importance)
    >>> norms.of([0, 1]).tolist()
    [3.0, 5.0]

    A cluster that was never observed gets the mean of the others.

    >>> norms.of([0, 1, 2]).tolist()
    [3.0, 5.0, 4.0]
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._squares: dict[int, float] = {}

    def observe(self, label: int, importance: float) -> None:
        """Add a measurement of a stored batch of this cluster."""
        before = self._squares.get(label, importance**2)
        self._squares[label] = before + self.rate * (importance**2 - before)

    def of(self, labels: Sequence[int]) -> NDArray[np.float64]:
        """The importance of these clusters, [len(labels)]; all 1 if none is known."""
        roots = np.sqrt([self._squares.get(label, np.nan) for label in labels])
        known = roots[~np.isnan(roots)]
        return np.where(np.isnan(roots), known.mean() if len(known) else 1.0, roots)

    def state_dict(self) -> dict[str, Any]:
        return {
            "labels": np.array(list(self._squares), np.int64),
            "squares": np.array(list(self._squares.values()), np.float64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        labels = np.asarray(state["labels"]).tolist()
        self._squares = dict(zip(labels, np.asarray(state["squares"]).tolist(), strict=True))
