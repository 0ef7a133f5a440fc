"""The two-window MMD^2 U-statistic of a stream, kept exactly, in O(B) kernel evaluations a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from metadrift.errors import MetadriftError

Array = NDArray[np.float64]


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
        self._end = 2 * B  # the window is the 2B rows before this one; it slides along the buffer
        # A row is (y, -|y|^2/2, 1) for y the vector over the bandwidth, and a newcomer asks with
        # (y, 1, -|y|^2/2): one product gives the exponents -|y - y'|^2/2 of all its kernel values.
        self._rows = np.zeros((2 * B, 2))
        self._a = np.zeros(2 * B)
        self._question = np.ones(2)
        self._s_vv = np.zeros(B)  # S_vv of step t at t mod B

    def update(self, vector: NDArray[np.floating[Any]]) -> float:
        """Take in one vector [D]; W, or nan until 2B vectors were seen."""
        return self._one(self._scaled(np.asarray(vector, np.float64)))

    def update_many(self, vectors: NDArray[np.floating[Any]]) -> Array:
        """Take in vectors [N, D]; W [N] after each, to the bit what one at a time gives."""
        y = self._scaled(np.asarray(vectors, np.float64))
        W = np.empty(len(y))
        done = 0
        while done < len(y):
            n = min(len(y) - done, len(self._rows) - self._end)
            if n < 2 or self.seen + 1 < 2 * self.B:
                W[done] = self._one(y[done])  # also while the windows fill
                done += 1
            else:
                W[done : done + n] = self._block(y[done : done + n])
                done += n
        return W

    def _scaled(self, vectors: Array) -> Array:
        D = vectors.shape[-1]
        if self._rows.shape[1] != D + 2:
            self._allocate(D)
        if self.centre is not None:
            vectors = vectors - self.centre
        return vectors / self.bandwidth

    def _one(self, y: Array) -> float:
        B = self.B
        if self._end == len(self._rows):
            self._rewind()
        start, end = self._end - 2 * B + 1, self._end
        half = -0.5 * (y @ y)
        question = self._question
        question[:-2] = y
        question[-1] = half
        k = self._rows[start:end] @ question
        np.exp(k, out=k)
        k[B - 1] = 0.0
        if self.seen < 2 * B - 1:
            k[: 2 * B - 1 - self.seen] = 0.0
        a = self._a[start : end + 1]
        a[:-1] += k
        a[-1] = 0.0
        row = self._rows[end]
        row[:-2] = y
        row[-2] = half
        self._end += 1
        place = self.seen % B
        self.seen += 1
        s_uu, s_v = self._s_vv[place], np.add.reduce(a[B:])
        self._s_vv[place] = s_v
        if self.seen < 2 * B:
            return float("nan")
        return float((2 * s_uu + s_v - np.add.reduce(a[:B])) * (2 / (B * (B - 1))))

    def _block(self, y: Array) -> Array:
        """The same as `_one` for n vectors; every sum is taken in the same order."""
        B, n, start, end = self.B, len(y), self._end - 2 * self.B + 1, self._end
        width = 2 * B - 1
        half = -0.5 * np.matmul(y[:, None, :], y[:, :, None])[:, :, 0]
        rows = self._rows[end : end + n]
        rows[:, :-2] = y
        rows[:, -2:-1] = half
        questions = np.concatenate([y, np.ones((n, 1)), half], axis=1)
        step, item = self._rows.strides
        windows = as_strided(
            self._rows[start:], (n, width, rows.shape[1]), (step, step, item), writeable=False
        )
        k = np.matmul(windows, questions[:, :, None])[:, :, 0]
        np.exp(k, out=k)
        k[:, B - 1] = 0.0
        # Step i adds its values one place further right: a staircase, summed downwards.
        a = np.zeros((n, width + n))
        stairs = as_strided(a, (n, width + 1), (a.strides[0] + a.itemsize, a.itemsize))
        stairs[:, :-1] = k
        a[0, :width] += self._a[start:end]
        np.add.accumulate(a, axis=0, out=a)
        self._a[start : end + n] = a[-1]
        self._end += n
        s_v = stairs[:, B:].sum(1)
        past = np.concatenate([np.roll(self._s_vv, -(self.seen % B)), s_v])
        self.seen += n
        self._s_vv = np.roll(past[-B:], self.seen % B)
        return np.asarray((2 * past[:n] + s_v - stairs[:, :B].sum(1)) * (2 / (B * (B - 1))))

    def _allocate(self, D: int) -> None:
        if self.seen:
            raise MetadriftError(
                f"a vector of length {D} came after {self.seen} vectors of length "
                f"{self._rows.shape[1] - 2}; all must have one length"
            )
        room = 4 * self.B + 64  # to slide along, so that moving back is rare
        self._rows = np.zeros((room, D + 2))
        self._rows[:, -1] = 1.0
        self._question = np.ones(D + 2)
        self._a = np.zeros(room)

    def _rewind(self) -> None:
        keep = 2 * self.B
        for buffer in (self._rows, self._a):
            buffer[:keep] = buffer[self._end - keep : self._end].copy()
        self._end = keep

    def state_dict(self) -> dict[str, Any]:
        window = slice(self._end - 2 * self.B, self._end)
        return {
            "B": self.B,
            "bandwidth": self.bandwidth,
            "centre": None if self.centre is None else self.centre.copy(),
            "seen": self.seen,
            "rows": self._rows[window].copy(),
            "a": self._a[window].copy(),
            "s_vv": self._s_vv.copy(),
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> TwoWindowMMD:
        centre = None if state["centre"] is None else np.array(state["centre"], np.float64)
        mmd = TwoWindowMMD(int(state["B"]), float(state["bandwidth"]), centre)
        if state["seen"]:
            mmd._allocate(state["rows"].shape[1] - 2)
            window = slice(0, 2 * mmd.B)
            mmd._rows[window], mmd._a[window] = state["rows"], state["a"]
            mmd._s_vv[:] = state["s_vv"]
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
