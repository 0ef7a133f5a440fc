"""The latent domain of every arriving batch, as known so far."""

from __future__ import annotations

from typing import Any

import numpy as np


class LabelHistory:
    """The label of every arrival so far, and N_i: how many arrivals label i has.

    Labels change rarely, so the history is a list of runs, (first step, label). Its size grows with
    the number of changes, not with the stream. A change may be dated back any number of steps.

    Attributes
    ----------
    seen
        N_i: label -> batches that arrived.

    Examples
    --------
    >>> history = LabelHistory()
    >>> for _ in range(6):
    ...     history.arrive(0)
    >>> history.relabel(since_step=4, label=1)
    >>> history.seen
    {0: 4, 1: 2}
    """

    def __init__(self) -> None:
        self.steps = 0
        self.seen: dict[int, int] = {}
        self._runs: list[tuple[int, int]] = []

    def arrive(self, label: int) -> None:
        """Count one more batch of this label. A new label opens a cluster."""
        self._append(self.steps, self.steps + 1, label)
        self.steps += 1

    def relabel(self, since_step: int, label: int) -> None:
        """Give `label` to all batches since this step."""
        since_step, end = max(since_step, 0), self.steps
        while end > since_step:
            first, old = self._runs.pop()
            start = max(first, since_step)
            self._count(old, start - end)
            if first < since_step:
                self._runs.append((first, old))
            end = start
        if self.steps > since_step:
            self._append(since_step, self.steps, label)

    def _append(self, first: int, end: int, label: int) -> None:
        if not self._runs or self._runs[-1][1] != label:
            self._runs.append((first, label))
        self._count(label, end - first)

    def _count(self, label: int, more: int) -> None:
        self.seen[label] = self.seen.get(label, 0) + more
        if self.seen[label] == 0:
            del self.seen[label]

    def state_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "first_steps": np.array([first for first, _ in self._runs], np.int64),
            "labels": np.array([label for _, label in self._runs], np.int64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.seen, self._runs = int(state["steps"]), {}, []
        first_steps = [*np.asarray(state["first_steps"]).tolist(), self.steps]
        for i, label in enumerate(np.asarray(state["labels"]).tolist()):
            self._append(first_steps[i], first_steps[i + 1], label)
