"""Stage 1 of the default detector within one domain: the statistic and its moving threshold."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from metadrift.detection.config import DetectionConfig
from metadrift.detection.fourier import FourierMMD
from metadrift.detection.mmd import Array, TwoWindowMMD, median_bandwidth, null_moments, rbf
from metadrift.detection.whitening import Whitening

_NOISE = 1e-9  # below this a spread of the statistic is rounding


class WindowStatistic:
    """W of whitened vectors, and mu + delta sigma from moving moments of W itself.

    The moments start from windows drawn at random from the burn-in. They are updated 2B steps late,
    so that a change cannot raise its own threshold. Sigma never falls below its first value: W
    changes slowly, so a few hundred steps hold only a few independent values.
    """

    def __init__(
        self,
        config: DetectionConfig,
        white: Whitening,
        width: float,
        mmd: TwoWindowMMD | FourierMMD,
        start: tuple[float, float],
    ) -> None:
        self.delta, self.rho = config.delta, config.rho
        self.white = white
        self.width = width
        self.mmd = mmd
        mean, sd = start
        self._moments = [mean, mean**2 + sd**2]
        self._least_sigma = max(sd, _NOISE)
        self._late: deque[float] = deque()
        self._frozen_until = 0
        self.threshold = self._threshold()

    @staticmethod
    def learn(sample: Array, config: DetectionConfig, rng: np.random.Generator) -> WindowStatistic:
        """From the burn-in [N, D]; its vectors fill the windows."""
        white = Whitening(sample)
        z = white(sample)
        width = median_bandwidth(z)
        draws = config.permutations
        B = config.window
        mmd: TwoWindowMMD | FourierMMD
        if config.mode == "fourier":
            mmd = FourierMMD(B, width, z, config.fourier_features, config.seed)
            start = mmd.null_moments(z, draws, rng)
        else:
            mmd = TwoWindowMMD(B, width)
            start = null_moments(z, B, width, draws, rng)
        mmd.update_many(z)
        return WindowStatistic(config, white, width, mmd, start)

    def kernel(self, vectors: Array) -> Array:
        """The kernel values [N, N] that this domain's W is made of."""
        return rbf(self.white(vectors), self.width)

    def update(self, vector: Array) -> float:
        """Take in the next vector [D]; W."""
        return self.mmd.update(self.white(vector))

    def feed(self, W: float, now: int) -> None:
        """Let the moments, and with them the threshold, see W 2B steps from now."""
        self._late.append(W)
        if len(self._late) <= 2 * self.mmd.B:
            return
        old = self._late.popleft()
        if now >= self._frozen_until:
            mean, square = self._moments
            self._moments = [mean + self.rho * (old - mean), square + self.rho * (old**2 - square)]
            self.threshold = self._threshold()

    def _threshold(self) -> float:
        mean, square = self._moments
        sigma = math.sqrt(max(square - mean**2, 0.0))
        return mean + self.delta * max(sigma, self._least_sigma)

    def freeze(self, until: int) -> None:
        """Keep the moments as they are up to a step."""
        self._frozen_until = until

    def state_dict(self) -> dict[str, Any]:
        return {
            "white": self.white.state_dict(),
            "width": self.width,
            "mmd": self.mmd.state_dict(),
            "moments": list(self._moments),
            "least_sigma": self._least_sigma,
            "late": list(self._late),
            "frozen_until": self._frozen_until,
        }

    @staticmethod
    def from_state(state: dict[str, Any], config: DetectionConfig) -> WindowStatistic:
        kind = FourierMMD if config.mode == "fourier" else TwoWindowMMD
        white, mmd = Whitening.from_state(state["white"]), kind.from_state(state["mmd"])
        windows = WindowStatistic(config, white, float(state["width"]), mmd, (0.0, 0.0))
        windows._moments = [float(moment) for moment in state["moments"]]
        windows._least_sigma = float(state["least_sigma"])
        windows._late.extend(float(W) for W in state["late"])
        windows._frozen_until = int(state["frozen_until"])
        windows.threshold = windows._threshold()
        return windows
