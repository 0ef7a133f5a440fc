"""What each latent domain has brought so far: how many batches, and how hard they were."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metadrift.errors import MetadriftError


class Arrivals:
    """N_i and I_i of every cluster i, with enough of the recent past to correct a late label.

    Parameters
    ----------
    rate
        I_i is a moving average of the importance of cluster i's batches with this rate.
    history
        How many steps back a change may be dated.

    Attributes
    ----------
    seen
        N_i: label -> batches that arrived.
    importance
        I_i: label -> moving average.

    Examples
    --------
    >>> arrivals = Arrivals(rate=0.5)
    >>> for importance in (4.0, 2.0, 8.0, 8.0):
    ...     arrivals.arrive(0, importance)
    >>> arrivals.relabel(since_step=2, label=1)
    >>> arrivals.seen, arrivals.importance
    ({0: 2, 1: 2}, {0: 3.0, 1: 8.0})
    """

    def __init__(self, rate: float = 0.02, history: int = 4096) -> None:
        self.rate = rate
        self.steps = 0
        self.seen: dict[int, int] = {}
        self.importance: dict[int, float] = {}
        # Rings over the last steps: label, importance, and I_label before it (nan: none yet).
        self._label = np.zeros(history, np.int64)
        self._value = np.zeros(history, np.float64)
        self._before = np.zeros(history, np.float64)

    def arrive(self, label: int, importance: float) -> None:
        """One more batch of this cluster; a new label opens a cluster."""
        place = self.steps % len(self._label)
        self._label[place] = label
        self._value[place] = importance
        self._before[place] = self.importance.get(label, math.nan)
        self.seen[label] = self.seen.get(label, 0) + 1
        self.importance.setdefault(label, importance)
        self.observe(label, importance)
        self.steps += 1

    def observe(self, label: int, importance: float) -> None:
        """A stored batch of this cluster was seen again; its importance now moves I_i."""
        if label in self.importance:
            self.importance[label] += self.rate * (importance - self.importance[label])

    def relabel(self, since_step: int, label: int) -> None:
        """All batches since this step belong to `label`: N_i and I_i become what they would be had
        this been known. (What `observe` added since is taken back with the rest.)"""
        since_step = max(since_step, 0)
        if self.steps - since_step > len(self._label):
            raise MetadriftError(
                f"a change was dated back {self.steps - since_step} steps; the memory can correct "
                f"its counts for the last {len(self._label)}"
            )
        values = []
        while self.steps > since_step:
            self.steps -= 1
            values.append(self._take_back(self.steps % len(self._label)))
        for value in reversed(values):
            self.arrive(label, value)

    def _take_back(self, place: int) -> float:
        label, before = int(self._label[place]), float(self._before[place])
        self.seen[label] -= 1
        self.importance[label] = before
        if self.seen[label] == 0:
            del self.seen[label], self.importance[label]
        return float(self._value[place])

    def state_dict(self) -> dict[str, Any]:
        n = min(self.steps, len(self._label))
        return {
            "steps": self.steps,
            "labels": np.array(list(self.seen), np.int64),
            "seen": np.array(list(self.seen.values()), np.int64),
            "importance": np.array([self.importance[i] for i in self.seen], np.float64),
            "recent_label": self._label[:n].copy(),
            "recent_value": self._value[:n].copy(),
            "recent_before": self._before[:n].copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = int(state["steps"])
        labels = np.asarray(state["labels"]).tolist()
        self.seen = dict(zip(labels, np.asarray(state["seen"]).tolist(), strict=True))
        self.importance = dict(zip(labels, np.asarray(state["importance"]).tolist(), strict=True))
        n = min(self.steps, len(self._label))
        self._label[:n] = np.asarray(state["recent_label"])
        self._value[:n] = np.asarray(state["recent_value"])
        self._before[:n] = np.asarray(state["recent_before"])
