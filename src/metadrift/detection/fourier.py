"""A statistic like W without windows: two exponential means of random Fourier features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.errors import MetadriftError
from metadrift.randomness import Purpose, generator

Array = NDArray[np.float64]


class FourierMMD:
    """MMD^2 between the near and the farther past, in O(r) numbers and no window (as NEWMA).

    phi(x) of length r has phi(x).phi(y) close to the Gaussian kernel k(x, y). A fast and a slow
    exponentially forgetting mean of phi play the two windows; the statistic is the squared
    distance between them, an MMD^2 between the stream weighted in two ways. It is positive also
    when nothing changes. Both means start at `start`'s mean phi.

    Parameters
    ----------
    B
        The fast mean forgets as a window of B does, the slow one as one of 4B.
    bandwidth
        The kernel's width.
    start
        Vectors [N, D] that stand for the time before the stream.
    r
        Length of phi, even.
    seed
        The frequencies follow from it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mmd = FourierMMD(20, 1.0, rng.normal(0, 1, (60, 2)), r=64, seed=0)
    >>> before = mmd.update_many(rng.normal(0, 1, (100, 2)))
    >>> bool(mmd.update_many(rng.normal(3, 1, (20, 2)))[-1] > 3 * before.max())
    True
    """

    def __init__(self, B: int, bandwidth: float, start: Array, r: int, seed: int) -> None:
        if r < 2 or r % 2:
            raise MetadriftError(f"the number of Fourier features must be even, not {r}")
        self.B = B
        self.fast, self.slow = 2 / (B + 1), 2 / (4 * B + 1)
        rng = generator(seed, Purpose.FOURIER)
        self._frequencies = rng.standard_normal((start.shape[1], r // 2)) / bandwidth
        self._means = np.tile(self.phi(start).mean(0), (2, 1))
        self._rates = np.array([[self.fast], [self.slow]])

    def phi(self, vectors: Array) -> Array:
        """[D] or [N, D] -> [r] or [N, r]."""
        angle = vectors.dot(self._frequencies)
        waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)
        scaled: Array = waves / math.sqrt(self._frequencies.shape[1])
        return scaled

    def update(self, vector: Array) -> float:
        """Take in one vector [D]; the statistic."""
        self._means += self._rates * (self.phi(vector) - self._means)
        gap = self._means[0] - self._means[1]
        return float(gap.dot(gap))

    def update_many(self, vectors: Array) -> Array:
        """Take in vectors [N, D]; the statistic [N] after each."""
        return np.array([self.update(vector) for vector in vectors])

    def null_moments(
        self, vectors: Array, permutations: int, rng: np.random.Generator
    ) -> tuple[float, float]:
        """Mean and standard deviation of the statistic over reorderings of vectors [N, D]."""
        phi = self.phi(vectors)
        phi = phi - phi.mean(0)
        age = np.arange(len(phi))
        weight = self.fast * (1 - self.fast) ** age - self.slow * (1 - self.slow) ** age
        gaps = np.stack([rng.permutation(weight) for _ in range(permutations)]) @ phi
        squared = (gaps**2).sum(1)
        return float(squared.mean()), float(squared.std())

    def state_dict(self) -> dict[str, Any]:
        return {
            "B": self.B,
            "frequencies": self._frequencies.copy(),
            "means": self._means.copy(),
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> FourierMMD:
        frequencies = np.array(state["frequencies"], np.float64)
        D, r = frequencies.shape[0], 2 * frequencies.shape[1]
        mmd = FourierMMD(int(state["B"]), 1.0, np.zeros((1, D)), r, seed=0)
        mmd._frequencies, mmd._means = frequencies, np.array(state["means"], np.float64)
        return mmd
