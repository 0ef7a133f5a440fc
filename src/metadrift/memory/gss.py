"""GSS-Greedy: a memory of batches whose gradients point in different directions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from torch import Tensor

from metadrift.errors import UsageError
from metadrift.memory.base import Memory
from metadrift.memory.buffer import Buffer
from metadrift.tasks import TaskBatch


class GSSMemory(Memory):
    """Gradient-based sample selection, greedy variant, on sketches of task gradients.

    The arriving batch has the score c = 1 + the largest cosine of its gradient with those of 10
    random stored batches (.1 for the first batch). While there is room it is stored with its
    score. Then a stored batch i is drawn with probability C_i / sum C and is replaced with
    probability C_i / (C_i + c). Drawing i reads the n scores, nothing else grows with n.

    Parameters
    ----------
    dim
        Length of the sketches, see `GradientSketch`.
    gate
        "original" considers a batch for a full memory only if c < 1. Between tasks of one domain
        the largest of 10 cosines is hardly ever negative, so this freezes the memory; the default
        is "none".

    Attributes
    ----------
    acceptance_rate
        The part of the batches offered to the full memory that was admitted.

    Examples
    --------
    >>> import torch
    >>> from metadrift.tasks import TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = GSSMemory(Buffer(2, 1, geometry, 1, 8), np.random.default_rng(0), dim=2)
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> for direction in ([1.0, 0.0], [0.0, 3.0]):
    ...     slot = memory.offer(batch, 0, 1.0, sketch=np.array(direction))
    >>> memory.score.tolist()
    [0.1, 1.0]

    References
    ----------
    Aljundi, R. et al. (2019). Gradient based sample selection for online continual learning.
    NeurIPS.
    """

    compared = 10

    def __init__(
        self,
        buffer: Buffer,
        rng: np.random.Generator,
        *,
        dim: int = 1024,
        gate: Literal["none", "original"] = "none",
    ) -> None:
        super().__init__(buffer, rng)
        if gate not in ("none", "original"):
            raise UsageError(f"the gate of GSS is 'none' or 'original', not {gate!r}")
        self.gate = gate
        self.score = np.zeros(self.capacity, np.float64)
        self.sketches = np.zeros((self.capacity, dim), np.float32)  # of length 1
        self._arriving = np.zeros(dim, np.float32)
        self._offered_when_full = 0
        self._admitted_when_full = 0

    @property
    def acceptance_rate(self) -> float:
        return self._admitted_when_full / max(self._offered_when_full, 1)

    def offer(
        self,
        tasks: TaskBatch,
        label: int,
        importance: float,
        logits: Tensor | None = None,
        sketch: np.ndarray | None = None,
    ) -> int | None:
        """As `Memory.offer`, with the sketch [dim] of the gradient of the arriving batch."""
        if sketch is None or sketch.shape != self._arriving.shape:
            raise UsageError(
                f"GSS needs the gradient sketch [{len(self._arriving)}] of each offered batch, "
                f"not {None if sketch is None else list(sketch.shape)}"
            )
        norm = float(np.linalg.norm(sketch))
        self._arriving = (sketch / max(norm, 1e-30)).astype(np.float32)
        return super().offer(tasks, label, importance, logits)

    def _admit(self, label: int, importance: float) -> int | None:
        c, was_full = self._score_arriving(), self.full
        slot = self._choose(c) if was_full else len(self)
        self._offered_when_full += was_full
        if slot is not None:
            self._admitted_when_full += was_full
            self.score[slot] = c
            self.sketches[slot] = self._arriving
        return slot

    def _score_arriving(self) -> float:
        stored = len(self)
        if stored == 0:
            return 0.1
        others = self.rng.choice(stored, min(self.compared, stored), replace=False)
        return max(0.0, 1.0 + float((self.sketches[others] @ self._arriving).max()))

    def _choose(self, c: float) -> int | None:
        if self.gate == "original" and c >= 1:
            return None
        total = np.cumsum(self.score)
        drawn = self.rng.random() * total[-1]
        slot = min(int(np.searchsorted(total, drawn, side="right")), self.capacity - 1)
        C = float(self.score[slot])
        return slot if self.rng.random() * (C + c) < C else None

    def state_dict(self) -> dict[str, Any]:
        n = len(self)
        return {
            **super().state_dict(),
            "score": self.score[:n].copy(),
            "sketches": self.sketches[:n].copy(),
            "offered_when_full": self._offered_when_full,
            "admitted_when_full": self._admitted_when_full,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        n = len(self)
        self.score[:n] = np.asarray(state["score"])
        self.sketches[:n] = np.asarray(state["sketches"])
        self._offered_when_full = int(state["offered_when_full"])
        self._admitted_when_full = int(state["admitted_when_full"])
