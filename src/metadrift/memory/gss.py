"""GSS-Greedy: a memory of batches whose gradients point in different directions."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from metadrift.errors import UsageError
from metadrift.memory.arrival import Arrival
from metadrift.memory.base import Memory
from metadrift.memory.buffer import Buffer

Gate = Literal["relative", "none", "original"]


class GSSMemory(Memory):
    """Gradient-based sample selection, greedy variant, on the gradients of whole batches.

    The arriving batch has the score c = 1 + its similarity: the largest cosine of its gradient
    with those of the stored batches that `draw_compared` names, all at the present weights (.1
    for the first batch). While there is room it is stored with its score. After that, a stored
    batch i is drawn with probability C_i / sum C and replaced with probability C_i / (C_i + c).
    Drawing i reads the n scores; no other cost grows with n.

    Parameters
    ----------
    gate
        "original" considers a batch for a full memory only if c < 1. Between tasks of one domain
        the largest of 10 cosines is hardly ever negative, so this freezes the memory. "relative"
        requires c < C_i instead: the new batch is less similar to others than the one it replaces.
        "none" considers every batch; the newest domain then fills the memory.
    compared
        The number of stored batches to compare an arriving one with.

    Examples
    --------
    >>> import torch
    >>> from metadrift.examples import Pictures
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = GSSMemory(Buffer(2, 1, geometry, Pictures(8, 1)), np.random.default_rng(0))
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> slot = memory.offer(Arrival(batch))
    >>> memory.draw_compared()
    [0]
    >>> slot = memory.offer(Arrival(batch, similarity=-0.25))
    >>> memory.score.tolist()
    [0.1, 0.75]

    References
    ----------
    Aljundi, R. et al. (2019). Gradient based sample selection for online continual learning.
    NeurIPS.
    """

    def __init__(
        self,
        buffer: Buffer,
        rng: np.random.Generator,
        *,
        gate: Gate = "relative",
        compared: int = 10,
    ) -> None:
        super().__init__(buffer, rng)
        if gate not in get_args(Gate):
            known = ", ".join(get_args(Gate))
            raise UsageError(f"the gate of GSS is one of {known}, not {gate!r}")
        if compared < 1:
            raise UsageError(f"GSS compares with at least one stored batch, not {compared}")
        self.gate = gate
        self.compared = compared
        self.score = np.zeros(self.capacity, np.float64)

    def draw_compared(self) -> list[int]:
        """The random stored batches that the next arrival is compared with."""
        stored = len(self)
        drawn: list[int] = self.rng.choice(
            stored, min(self.compared, stored), replace=False
        ).tolist()
        return drawn

    def admit(self, arrival: Arrival) -> int | None:
        c = self._score(arrival)
        slot = self._choose(c) if self.full else len(self)
        if slot is not None:
            self.score[slot] = c
        return slot

    def _score(self, arrival: Arrival) -> float:
        if len(self) == 0:
            return 0.1
        if arrival.similarity is None:
            raise UsageError("GSS needs the similarity of each offered batch to stored ones")
        return max(0.0, 1.0 + arrival.similarity)

    def _choose(self, c: float) -> int | None:
        if self.gate == "original" and c >= 1:
            return None
        total = np.cumsum(self.score)
        drawn = self.rng.random() * total[-1]
        slot = min(int(np.searchsorted(total, drawn, side="right")), self.capacity - 1)
        C = float(self.score[slot])
        if self.gate == "relative" and c >= C:
            return None
        return slot if self.rng.random() * (C + c) < C else None

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "score": self.score[: len(self)].copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.score[: len(self)] = np.asarray(state["score"])
