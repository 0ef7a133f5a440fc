"""The change detector with the interface of river's drift detectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from metadrift.detection.config import DetectionConfig
from metadrift.detection.detectors import Change
from metadrift.detection.twostage import TwoStageDetector
from metadrift.errors import MetadriftError, UsageError


class DriftDetector:
    """Watches numbers or vectors, one `update` each, as the detectors of `river.drift` do.

    Parameters
    ----------
    window
        B; a change is noticed some B/2 to 2B updates after it began.
    mode
        `default` or `fourier`.
    seed
        Of the permutations.

    Attributes
    ----------
    change
        The last change that was noticed: `change.started_at` says where it began.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> detector = DriftDetector(window=20)
    >>> for step, x in enumerate([*rng.normal(0, 1, 300), *rng.normal(3, 1, 100)]):
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         print("noticed at", step, "began at", detector.change.started_at)
    noticed at 316 began at 300
    """

    def __init__(self, window: int = 50, mode: str = "default", seed: int = 0) -> None:
        if mode not in ("default", "fourier"):
            raise UsageError(f"mode must be default or fourier, not {mode!r}")
        self.config = DetectionConfig(
            mode=mode, window=window, burn_in=6 * window, rho=1 / (20 * window), seed=seed
        )
        self._reset()

    def _reset(self) -> None:
        self._detector = TwoStageDetector(self.config)
        self._names: tuple[str, ...] | None = None
        self._found: Change | None = None
        self.change: Change | None = None

    @property
    def drift_detected(self) -> bool:
        """True if the last update noticed a change."""
        return self._found is not None

    def update(self, x: float | Sequence[float] | Mapping[str, float]) -> None:
        """Take in the next number, vector, or numbers by name."""
        self._found = self._detector.update(self._vector(x))
        self.change = self._found or self.change

    def clone(self) -> DriftDetector:
        """A new detector with the same parameters and no past; river's ensembles need it."""
        return DriftDetector(self.config.window, self.config.mode, self.config.seed)

    def _vector(self, x: float | Sequence[float] | Mapping[str, float]) -> np.ndarray:
        if not isinstance(x, Mapping):
            return np.atleast_1d(np.asarray(x, np.float64))
        if self._names is None:
            self._names = tuple(x)
        if set(x) != set(self._names):
            odd = sorted(set(x) ^ set(self._names))
            raise MetadriftError(f"every update must have the same names; {odd[0]!r} is not in all")
        return np.array([x[name] for name in self._names], np.float64)
