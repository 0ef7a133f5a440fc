"""Whitening: from features of any scale and correlation to coordinates of equal weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# In standard deviations: a dimension that was constant may jump by any number.
_LEAST, _MOST = np.array(-10.0), np.array(10.0)


class Whitening:
    """Standardise, clip, and rotate out up to half of the correlation, as seen in a sample [N, D].

    Without it the few directions in which the features vary most (brightness) dominate the
    kernel's distance. Domains rarely differ in those directions.

    Examples
    --------
    >>> white = Whitening(np.array([[0.0, 5.0], [2.0, 5.0], [1.0, 5.0]]))
    >>> white(np.array([1.0, 5.0])).tolist()
    [0.0, 0.0]
    """

    def __init__(self, sample: Array) -> None:
        self.mean = sample.mean(0)
        # The floor is float32's rounding only: what never varied is watched most closely.
        noise = 1e-7 * np.abs(self.mean) + 1e-100
        self.scale = np.maximum(sample.std(0), noise)
        z = self._standardised(sample)
        N, D = z.shape
        # At most halfway from no correlation to the one found, less where N is small against D:
        # what a sample taught too well, the next vectors would seem to violate.
        shrink = max(0.5, D / (D + N))
        values, vectors = np.linalg.eigh((1 - shrink) * (z.T @ z / N) + shrink * np.eye(D))
        self.matrix = np.ascontiguousarray(vectors / np.sqrt(values))

    def __call__(self, vectors: Array) -> Array:
        """[D] or [N, D] -> the same shape."""
        white: Array = self._standardised(vectors).dot(self.matrix)
        return white

    def _standardised(self, vectors: Array) -> Array:
        z: Array = vectors - self.mean
        np.divide(z, self.scale, out=z)
        np.maximum(z, _LEAST, out=z)
        np.minimum(z, _MOST, out=z)
        return z

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in ("mean", "scale", "matrix")}

    @staticmethod
    def from_state(state: dict[str, Any]) -> Whitening:
        white = object.__new__(Whitening)
        for name in ("mean", "scale", "matrix"):
            setattr(white, name, np.array(state[name], np.float64))
        return white
