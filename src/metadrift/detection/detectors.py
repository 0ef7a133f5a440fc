"""The base class of all detectors, and Algorithm 1 of the paper as printed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.detection.config import DetectionConfig
from metadrift.detection.mmd import Array, TwoWindowMMD, median_bandwidth
from metadrift.errors import MetadriftError

LARGE = 1e100  # larger numbers are taken as this one, whose squares can still be added up


@dataclass(frozen=True)
class Change:
    """A change of domain: reported at `at_step`, its first batch estimated as `started_at`."""

    at_step: int
    started_at: int
    statistic: float
    threshold: float


class ChangeDetector(ABC):
    """Reads one vector per step, from step 0, and reports changes of domain.

    `statistic` and `threshold` are those of the last step, nan before they exist.
    """

    def __init__(self) -> None:
        self.step = 0  # of the next vector
        self.statistic = math.nan
        self.threshold = math.nan
        self._length: int | None = None  # of a vector

    def update(self, embedding: NDArray[np.floating[Any]]) -> Change | None:
        """Take in the next vector [D]."""
        vector = _numbers(embedding)
        # One product instead of a look at each number; what is not surely right is looked at.
        with np.errstate(over="ignore", invalid="ignore"):
            fits = vector.ndim == 1 and len(vector) == self._length
            usual = fits and vector.dot(vector) < LARGE**2
        if not usual:
            self._check(vector[None])
            vector = np.clip(vector, -LARGE, LARGE)
        return self._take(vector)

    def update_many(self, embeddings: NDArray[np.floating[Any]]) -> list[Change]:
        """Take in vectors [N, D], one after the other; none of them if one is refused."""
        vectors = _numbers(embeddings)
        self._check(vectors)
        vectors = np.clip(vectors, -LARGE, LARGE)
        return [change for vector in vectors if (change := self._take(vector))]

    def _check(self, vectors: Array) -> None:
        if vectors.ndim != 2:
            raise MetadriftError(
                f"embeddings must be [steps, D] (one vector [D] for update), "
                f"not {list(vectors.shape)}"
            )
        if self._length not in (None, vectors.shape[1]):
            raise MetadriftError(
                f"the embedding of step {self.step} has length {vectors.shape[1]}, those before "
                f"it {self._length}; all must have one length"
            )
        finite = np.isfinite(vectors).all(1)
        if not finite.all():
            raise MetadriftError(
                f"the vector of step {self.step + int(np.argmin(finite))} holds NaN or infinity "
                "(the first step is 0); a detector needs finite numbers"
            )
        self._length = vectors.shape[1]

    @abstractmethod
    def _take(self, vector: Array) -> Change | None:
        """Take in the next vector [D], of finite numbers; counts `step` up."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next steps depend on, as copies."""
        return {
            "step": self.step,
            "statistic": self.statistic,
            "threshold": self.threshold,
            "length": self._length,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on, to the bit, where `state_dict` was taken from a detector of the same settings."""
        self.step = int(state["step"])
        self.statistic, self.threshold = float(state["statistic"]), float(state["threshold"])
        self._length = state["length"]


class Algorithm1:
    """ODCD, Algorithm 1: an alarm when W > mu + delta sigma, the moments those of W^2.

    As printed, W is compared with moments of its square. W is below 1, so mu is far smaller than
    W's own spread, and about half of all steps give an alarm. `sqrt=True` compares W with
    sqrt(mu + delta sigma), which has W's unit.

    Examples
    --------
    >>> rule = Algorithm1(rho=0.5, delta=1.0)
    >>> [rule.decide(W) for W in (0.1, -0.1, 2.0)]
    [True, False, False]
    """

    def __init__(self, rho: float, delta: float, sqrt: bool = False) -> None:
        self.rho = rho
        self.delta = delta
        self.sqrt = sqrt
        self.mu = 0.0
        self.mu2 = 0.0
        self.threshold = math.nan

    def decide(self, W: float) -> bool:
        """The indicator d of Algorithm 1 for the next W."""
        self.mu = (1 - self.rho) * self.mu + self.rho * W**2
        self.mu2 = (1 - self.rho) * self.mu2 + self.rho * W**4
        sigma = math.sqrt(max(self.mu2 - self.mu**2, 0.0))
        b = self.mu + self.delta * sigma
        self.threshold = math.sqrt(b) if self.sqrt else b
        return self.threshold < W


class PaperDetector(ChangeDetector):
    """Algorithm 1 on the two-window W, with the cases that the paper leaves undefined.

    Nothing is decided before both windows are full (2B vectors); the kernel width is the median
    heuristic on those 2B. A change is dated at the step of its alarm. After an alarm
    `config.refractory` steps pass without another (0: none, as printed).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> detector = PaperDetector(DetectionConfig("paper", window=10, sqrt=True, refractory=50))
    >>> stream = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(9, 1, (50, 2))])
    >>> [change.at_step for change in detector.update_many(stream)]
    [24, 84, 137]
    """

    def __init__(self, config: DetectionConfig) -> None:
        super().__init__()
        config = config.resolved()
        self.B = config.window
        self.refractory = config.refractory
        self.rule = Algorithm1(config.rho, config.delta, config.sqrt)
        self._first: list[Array] = []  # until there are 2B
        self._mmd: TwoWindowMMD | None = None
        self._quiet_until = 0

    def _take(self, vector: Array) -> Change | None:
        self.statistic = W = self._statistic(vector)
        now, self.step = self.step, self.step + 1
        if math.isnan(W):
            return None
        alarm = self.rule.decide(W)
        self.threshold = self.rule.threshold
        if not alarm or now < self._quiet_until:
            return None
        self._quiet_until = self.step + self.refractory
        return Change(now, now, self.statistic, self.threshold)

    def _statistic(self, vector: Array) -> float:
        if self._mmd is not None:
            return self._mmd.update(vector)
        self._first.append(vector.copy())
        if len(self._first) < 2 * self.B:
            return math.nan
        first, self._first = np.stack(self._first), []
        self._mmd = TwoWindowMMD(self.B, median_bandwidth(first), first.mean(0))
        return float(self._mmd.update_many(first)[-1])

    def state_dict(self) -> dict[str, Any]:
        mmd = self._mmd
        return super().state_dict() | {
            "moments": [self.rule.mu, self.rule.mu2],
            "quiet_until": self._quiet_until,
            "first": np.stack(self._first) if self._first else None,
            "mmd": None if mmd is None else mmd.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.rule.mu, self.rule.mu2 = state["moments"]
        self.rule.threshold = self.threshold
        self._quiet_until = int(state["quiet_until"])
        self._first = [] if state["first"] is None else list(np.array(state["first"]))
        self._mmd = None if state["mmd"] is None else TwoWindowMMD.from_state(state["mmd"])


def _numbers(embedding: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(embedding, np.float64)
    except (TypeError, ValueError):
        said = shorten(repr(embedding), 60)
        raise MetadriftError(f"a detector takes numbers in an array [D], not {said}") from None
