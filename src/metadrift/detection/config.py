"""The settings of detection, as a plain dataclass: every field is an option of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from metadrift import registry
from metadrift.errors import UsageError


@dataclass(frozen=True)
class DetectionConfig:
    """How changes of domain are detected. "auto" and 0 take the mode's own value.

    Examples
    --------
    >>> config = DetectionConfig().scaled(0.05)
    >>> config.window, config.burn_in, round(1 / config.rho)
    (20, 60, 300)
    >>> DetectionConfig(mode="paper").resolved().delta
    1.64
    """

    mode: str = "default"
    """The detector. default: two stages; fourier: the same with a window-free first stage; paper:
    Algorithm 1; or one of an installed package, package.module:Name or file.py:Name. In short:
    --detector."""
    features: str = "auto"
    """What is watched: frozen random features (auto), the network's embedding, both, the
    paper's z (paper_z, auto in paper mode), or features of an installed package,
    package.module:Name or file.py:Name. In short: --features."""
    context: bool = False
    """Also watch what tasks say besides their images: the names of their classes, as hashed
    character n-grams (in live programs, whatever TaskBatch.context holds)."""
    returns: Literal["auto", "on", "off"] = "auto"
    """Give a domain that comes back its old label, and undo false alarms. auto: on for frozen
    features; others drift."""
    window: int = 0
    """B, batches a window; 0 means 50, in paper mode 100."""
    delta: float = 0.0
    """Standard deviations above the mean that raise an alarm; 0 means 6, in paper mode 1.64."""
    rho: float = 1e-3
    """Rate of the moving moments of the statistic."""
    burn_in: int = 300
    """Batches of a domain from which scale, kernel width and first moments are estimated."""
    permutations: int = 200
    """Permutations of the confirmation test."""
    level: float = 0.005
    """Level of the confirmation test."""
    sqrt: bool = False
    """Paper mode: take the threshold under a square root, as the released code does."""
    refractory: int = 0
    """Paper mode: steps after an alarm in which no other is raised."""
    fourier_features: int = 512
    """r, the length of the random Fourier features of mode fourier."""
    feature_dim: int = 64
    """Length of the frozen features, and the most that is kept of a network's embedding."""
    lags: int = 5
    """m, past averages in the paper's z."""
    alpha: float = 0.5
    """Weight of the newest embedding in the paper's moving average."""
    seed: int = 0
    """Seed of the frozen filters, the Fourier frequencies and the permutations."""

    def __post_init__(self) -> None:
        registry.check("detectors", self.mode)
        registry.check("features", self.features, also=("auto",))
        if self.window and self.window < 3:
            raise UsageError(f"the detection window must be at least 3 batches, not {self.window}")
        if max(self.window, self.burn_in) > 10**9:
            raise UsageError("the detection window and its burn-in may have at most 10^9 batches")
        if self.delta < 0:
            raise UsageError(f"delta must not be negative, it is {self.delta}")
        if self.mode != "paper" and (self.refractory or self.sqrt):
            raise UsageError("refractory and sqrt are settings of mode paper; leave them out")
        if self.mode == "paper" and self.returns == "on":
            raise UsageError("the paper's rule knows no returns: leave --detection.returns out")
        if not 0 < self.rho <= 1:
            raise UsageError(f"rho must be above 0 and at most 1, not {self.rho}")
        if not 0 < self.level < 1 or self.permutations < 1 / self.level - 1:
            raise UsageError(
                f"{self.permutations} permutations cannot reach the level {self.level}: "
                f"take at least 1/level - 1"
            )

    def resolved(self) -> DetectionConfig:
        """The same with every "auto" and 0 replaced by the value it stands for."""
        paper = self.mode == "paper"
        window = self.window or (100 if paper else 50)
        features = self.features
        if features == "auto":
            features = "paper_z" if paper else "frozen"
        returns = self.returns
        if returns == "auto":
            returns = "on" if features == "frozen" and not paper else "off"
        return replace(
            self,
            features=features,
            returns=returns,
            window=window,
            delta=self.delta or (1.64 if paper else 6.0),
            burn_in=max(self.burn_in, 3 * window),
        )

    def scaled(self, scale: float) -> DetectionConfig:
        """For a stream of `scale` (up to 1) times the paper's length.

        Windows shrink as scale^0.306 (50 to 20 at 0.05) and not below 15, the burn-in as
        scale^0.537 (300 to 60) and not below three windows, and rho grows as
        scale^-0.402 (1/1000 to 1/300). Shorter windows would see too little of a domain, so
        nothing shrinks as fast as the stream.
        """
        if not scale > 0:
            raise UsageError(f"the scale must be above 0, not {scale}")
        full, scale = self.resolved(), min(scale, 1.0)
        window = min(full.window, max(15, round(full.window * scale**0.306)))
        return replace(
            full,
            window=window,
            burn_in=max(3 * window, round(full.burn_in * scale**0.537)),
            refractory=round(full.refractory * window / full.window),
            rho=min(full.rho * scale**-0.402, max(full.rho, 0.02)),
        )

    def blind_to(self, stays: Sequence[int]) -> str:
        """A sentence if some stay may be too short to be seen, with settings that would help.

        Examples
        --------
        >>> DetectionConfig().blind_to([500, 400])
        ''
        >>> print(DetectionConfig().blind_to([60, 60]).replace(": ", "\\n"))
        a stay of 60 steps is short for a detector with a window of 50, which needs about 150
        --detection.window 15 --detection.burn-in 45 needs about 45
        >>> print(DetectionConfig().blind_to([7, 63]).partition(": ")[2])
        no window sees fewer than 15; more steps or a larger --scale help
        """
        window = self.resolved().window
        if len(stays) < 2 or min(stays) >= 3 * window:
            return ""
        least = 5  # shorter windows see too little of a domain
        less = min(15, min(stays) // 3)
        if less < least:
            way_out = f"no window sees fewer than {3 * least}; more steps or a larger --scale help"
        else:
            way_out = (
                f"--detection.window {less} --detection.burn-in {3 * less} needs about {3 * less}"
            )
        steps = "1 step" if min(stays) == 1 else f"{min(stays)} steps"
        return (
            f"a stay of {steps} is short for a detector with a window of {window}, "
            f"which needs about {3 * window}: {way_out}"
        )
