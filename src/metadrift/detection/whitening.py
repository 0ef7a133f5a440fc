"""Features of any scale and correlation -> coordinates in which all directions count alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CLIP = 10.0  # in standard deviations; a dimension that was constant may jump by any number


class Whitening:
    """Standardise, clip, and rotate out up to half of the correlation, as seen in a sample [N, D].

    Without it the kernel's distance is ruled by the few directions in which the features vary
    most (brightness), which are rarely those in which two domains differ.

    Examples
    --------
    >>> white = Whitening(np.array([[0.0, 5.0], [2.0, 5.0], [1.0, 5.0]]))
    >>> white(np.array([[1.0, 5.0]])).tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, sample: Array) -> None:
        self.mean = sample.mean(0)
        # The floor is float32's rounding only: what never varied is watched most closely.
        noise = 1e-7 * np.abs(self.mean) + 1e-100
        self.scale = np.maximum(sample.std(0), noise)
        z = np.clip((sample - self.mean) / self.scale, -_CLIP, _CLIP)
        N, D = z.shape
        # At most halfway from no correlation to the one found, less where N is small against D:
        # what a sample taught too well, the next vectors would seem to violate.
        shrink = max(0.5, D / (D + N))
        values, vectors = np.linalg.eigh((1 - shrink) * (z.T @ z / N) + shrink * np.eye(D))
        self.matrix = np.ascontiguousarray((vectors / np.sqrt(values)).T)

    def __call__(self, vectors: Array) -> Array:
        """[N, D] -> [N, D]."""
        z = np.clip((vectors - self.mean) / self.scale, -_CLIP, _CLIP)
        return by_row(self.matrix, z)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in ("mean", "scale", "matrix")}

    @staticmethod
    def from_state(state: dict[str, Any]) -> Whitening:
        white = object.__new__(Whitening)
        for name in ("mean", "scale", "matrix"):
            setattr(white, name, np.array(state[name], np.float64))
        return white


def by_row(matrix: Array, vectors: Array) -> Array:
    """vectors [N, D] times matrix [E, D] transposed, each row the same bits whatever N is.

    One product a row: a product of all rows at once rounds differently, and then one vector at
    a time and a whole array would not give the same answers.
    """
    out: Array = np.matmul(matrix, vectors[:, :, None])[:, :, 0]
    return out
