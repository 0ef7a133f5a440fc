"""The two-window MMD^2 U-statistic of a stream, exact, with O(B) kernel evaluations per step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.errors import MetadriftError

Array = NDArray[np.float64]

_ZERO = np.array(0.0)


class TwoWindowMMD:
    """W^B_t of the paper: MMD^2 between the newest B vectors (V) and the B before them (U).

    W = 1/(B(B-1)) sum over i != j of k(u_i,u_j) + k(v_i,v_j) - k(u_i,v_j) - k(u_j,v_i), with
    k(x, y) = exp(-|x-y|^2 / 2 bandwidth^2). As i != j, the pairs k(u_i, v_i), which lie exactly
    B steps apart, do not count. The paper lists B+1 vectors for V; here both windows hold B and
    V ends with the newest vector.

    How it is kept: for each vector the sum A of its kernel values with all later ones, those B
    steps later left out. Within V the sum of A is S_vv, the pairs inside V; S_uu is the S_vv of
    B steps ago; the sum of A over U is S_uu and all pairs across. So
    W = 2/(B(B-1)) * (2 S_uu + sum_V A - sum_U A). A vector's A lives for 2B steps, so rounding
    errors do not pile up over the stream, and no matrix of kernel values is stored.

    Distances come from inner products: vectors should not lie farther from `centre` than some
    hundreds of bandwidths.

    Parameters
    ----------
    B
        Window length, at least 2.
    bandwidth
        The kernel's width, above 0.
    centre
        Subtracted from every vector; it changes nothing but the rounding.

    Examples
    --------
    >>> W = TwoWindowMMD(B=2, bandwidth=1.0)
    >>> [round(W.update(np.array([x])), 3) for x in (0.0, 0.0, 9.0, 9.0)]
    [nan, nan, nan, 2.0]
    """

    def __init__(self, B: int, bandwidth: float, centre: Array | None = None) -> None:
        if B < 2 or not (bandwidth > 0 and np.isfinite(bandwidth)):
            raise MetadriftError(
                f"need a window B >= 2 and a bandwidth above 0, not B={B}, bandwidth={bandwidth}"
            )
        self.B = B
        self.bandwidth = float(bandwidth)
        self.centre = centre
        self.seen = 0
        # Rings: vector t has the place t mod 2B. A row is (y, -|y|^2/2, 1) for y the vector over
        # the bandwidth, and a newcomer asks with (y, 1, -|y|^2/2): one product gives the exponents
        # -|y - y'|^2/2 of all its kernel values.
        self._rows = self._question = self._y = np.empty(0)  # _y: the question's first part
        self._width = np.array(self.bandwidth)  # numpy divides by an array faster than by a float
        self._a = np.zeros(2 * B)
        self._s_vv = [0.0] * B  # S_vv of step t at t mod B
        self._k = np.empty(2 * B)
        self._both = np.ones(2 * B)
        stripes = np.tile(np.repeat([0.0, 1.0], B), 2)
        self._newest = [stripes[2 * B - 1 - t :][: 2 * B] for t in range(2 * B)]  # 1 where V is

    def update(self, vector: NDArray[np.floating[Any]]) -> float:
        """Take in one vector [D]; W, or nan until 2B vectors were seen."""
        if len(self._y) != len(vector):
            self._allocate(len(vector))
        if self.centre is not None:
            vector = vector - self.centre
        question, y, a, k, B = self._question, self._y, self._a, self._k, self.B
        np.divide(vector, self._width, out=y)
        question[-1] = half = -0.5 * y.dot(y)
        self._rows.dot(question, out=k)
        np.minimum(k, _ZERO, out=k)  # rounding may lift it above, far above for huge numbers
        np.exp(k, out=k)
        place = self.seen % (2 * B)
        k[place - B] = 0.0
        np.add(a, k, out=a)
        a[place] = 0.0
        row = self._rows[place]
        row[:-2] = y
        row[-2] = half
        s_v = a.dot(self._newest[place])
        s_uu, self._s_vv[place % B] = self._s_vv[place % B], s_v
        self.seen += 1
        if self.seen < 2 * B:
            return math.nan
        return float(2 * s_uu + 2 * s_v - a.dot(self._both)) * (2 / (B * (B - 1)))

    def update_many(self, vectors: NDArray[np.floating[Any]]) -> Array:
        """Take in vectors [N, D]; W [N] after each."""
        return np.array([self.update(vector) for vector in vectors])

    def _allocate(self, D: int) -> None:
        if self.seen:
            raise MetadriftError(
                f"a vector of length {D} came after {self.seen} vectors of length "
                f"{len(self._y)}; all must have one length"
            )
        self._rows = np.zeros((2 * self.B, D + 2))
        self._rows[:, -2:] = -np.inf, 1.0  # a place that is still free has the kernel value 0
        self._question = np.ones(D + 2)
        self._y = self._question[:-2]

    def state_dict(self) -> dict[str, Any]:
        return {
            "B": self.B,
            "bandwidth": self.bandwidth,
            "centre": None if self.centre is None else self.centre.copy(),
            "seen": self.seen,
            "rows": self._rows.copy(),
            "a": self._a.copy(),
            "s_vv": np.array(self._s_vv),
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> TwoWindowMMD:
        centre = None if state["centre"] is None else np.array(state["centre"], np.float64)
        mmd = TwoWindowMMD(int(state["B"]), float(state["bandwidth"]), centre)
        if state["seen"]:
            mmd._allocate(state["rows"].shape[1] - 2)
            mmd._rows[:], mmd._a[:] = state["rows"], state["a"]
            mmd._s_vv = np.asarray(state["s_vv"], np.float64).tolist()
            mmd.seen = int(state["seen"])
        return mmd


def median_bandwidth(vectors: Array) -> float:
    """The median heuristic: the median distance between vectors [N, D], divided by sqrt 2.

    Where more than half of all pairs coincide, the mean distance takes over; where all do, 1.
    """
    squared = pairwise_squared(vectors)[np.triu_indices(len(vectors), 1)]
    for width in (np.median(squared), squared.mean()) if len(squared) else ():
        if width > 1e-20:
            return float(np.sqrt(width / 2))
    return 1.0


def pairwise_squared(vectors: Array) -> Array:
    """Squared distances [N, N]; exactly zero on the diagonal."""
    centred = vectors - vectors.mean(0)
    half = (centred**2).sum(1) / 2
    squared: Array = np.maximum(2 * (half[:, None] + half - centred @ centred.T), 0.0)
    np.fill_diagonal(squared, 0.0)
    return squared


def rbf(vectors: Array, bandwidth: float) -> Array:
    """Kernel values [N, N]."""
    kernel: Array = np.exp(pairwise_squared(vectors) / (-2 * bandwidth**2))
    return kernel


def null_moments(
    vectors: Array, B: int, bandwidth: float, permutations: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean and standard deviation of W when nothing changes: windows drawn from vectors [N, D]."""
    k = rbf(vectors, bandwidth)
    W = np.empty(permutations)
    for i in range(permutations):
        chosen = rng.permutation(len(k))[: 2 * B]
        W[i] = _mmd_of_kernel(k[np.ix_(chosen, chosen)])
    return float(W.mean()), float(W.std())


def two_window_mmd(u: Array, v: Array, bandwidth: float) -> float:
    """W of two windows [B, D] straight from its definition, O(B^2)."""
    return _mmd_of_kernel(rbf(np.concatenate([u, v]), bandwidth))


def _mmd_of_kernel(k: Array) -> float:
    B = len(k) // 2
    h = k[:B, :B] + k[B:, B:] - k[:B, B:] - k[:B, B:].T
    np.fill_diagonal(h, 0.0)
    return float(h.sum() / (B * (B - 1)))
