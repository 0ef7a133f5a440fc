"""GSS-Greedy: a memory of batches whose gradients point in different directions."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from metadrift.errors import UsageError
from metadrift.memory.base import Memory
from metadrift.memory.buffer import Buffer
from metadrift.tasks import TaskBatch

Gate = Literal["relative", "none", "original"]


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
        the largest of 10 cosines is hardly ever negative, so this freezes the memory. "relative"
        asks instead that c < C_i: what comes in is less like the others than what goes out was.
        "none" lets every batch try, and the newest domain takes over.
    compared
        How many stored batches an arriving one is compared with.

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

    def __init__(
        self,
        buffer: Buffer,
        rng: np.random.Generator,
        *,
        dim: int = 1024,
        gate: Gate = "relative",
        compared: int = 10,
    ) -> None:
        super().__init__(buffer, rng)
        if gate not in get_args(Gate):
            known = ", ".join(get_args(Gate))
            raise UsageError(f"the gate of GSS is one of {known}, not {gate!r}")
        if compared < 1:
            raise UsageError(f"GSS compares with at least one stored gradient, not {compared}")
        self.gate = gate
        self.compared = compared
        self.score = np.zeros(self.capacity, np.float64)
        self.sketches = np.zeros((self.capacity, dim), np.float32)  # of length 1
        self._arriving = np.zeros(dim, np.float32)

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
        c = self._score_arriving()
        slot = self._choose(c) if self.full else len(self)
        if slot is not None:
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
        if self.gate == "relative" and c >= C:
            return None
        return slot if self.rng.random() * (C + c) < C else None

    def state_dict(self) -> dict[str, Any]:
        n = len(self)
        return {
            **super().state_dict(),
            "score": self.score[:n].copy(),
            "sketches": self.sketches[:n].copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        n = len(self)
        self.score[:n] = np.asarray(state["score"])
        self.sketches[:n] = np.asarray(state["sketches"])
