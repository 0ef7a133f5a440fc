"""The paper's projected space: o_t -> O_t -> z_t (Section 3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.errors import MetadriftError


class Projection:
    """z_t: the distances of o_t to the moving averages O_{t-1}, ..., O_{t-m}.

    O_t = alpha o_t + (1 - alpha) O_{t-1}. The paper leaves the first m steps undefined: here
    O_0 = o_0, and O_0 stands in for every average from before the stream began, so z_0 = 0. The
    distance is the Euclidean one.

    Parameters
    ----------
    m
        How many past averages, the length of z_t.
    alpha
        Weight of the newest embedding, in (0, 1]. The paper gives none.

    Examples
    --------
    >>> projection = Projection(m=2, alpha=0.5)
    >>> [projection.update(np.array([o])).tolist() for o in (0.0, 4.0, 4.0)]
    [[0.0, 0.0], [4.0, 4.0], [2.0, 4.0]]
    """

    def __init__(self, m: int = 5, alpha: float = 0.5) -> None:
        if m < 1 or not 0 < alpha <= 1:
            raise MetadriftError(f"need m >= 1 and 0 < alpha <= 1, not m={m}, alpha={alpha}")
        self.m = m
        self.alpha = alpha
        self._past: NDArray[np.float64] | None = None  # [m, D], newest first

    def update(self, embedding: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """o_t [D] -> z_t [m]."""
        o = np.asarray(embedding, np.float64)
        if self._past is None:
            self._past = np.tile(o, (self.m, 1))
            return np.zeros(self.m)
        if o.shape != self._past.shape[1:]:
            raise MetadriftError(
                f"the embedding has shape {list(o.shape)}, those before it "
                f"{list(self._past.shape[1:])}"
            )
        z: NDArray[np.float64] = np.sqrt(((self._past - o) ** 2).sum(1))
        newest = self.alpha * o + (1 - self.alpha) * self._past[0]
        self._past = np.concatenate([newest[None], self._past[:-1]])
        return z

    def state_dict(self) -> dict[str, Any]:
        return {"past": None if self._past is None else self._past.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._past = None if state["past"] is None else np.array(state["past"], np.float64)
