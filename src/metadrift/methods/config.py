"""The settings of memory, replay and fresh tasks. Field docstrings are the --help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from metadrift.errors import UsageError

Fresh = Literal["all", "replay", "off"]
MethodName = Literal[
    "sequential",
    "reservoir",
    "gss",
    "agem",
    "mir",
    "mer",
    "m2d3-pets",
    "loss-aware",
    "balanced-oracle",
]


@dataclass(frozen=True)
class MemoryConfig:
    """What comes into memory and what goes out."""

    capacity: int | None = None
    """Stored task batches; by default the benchmark's number, shrunk by --scale."""
    mode: Literal["default", "paper"] = "default"
    """M2D3: the quota rule, or Algorithm 2 as the paper prints it."""
    beta: float = 0.5
    """M2D3: how much a domain's difficulty counts in its quota; 0 leaves difficulty out."""
    kappa: float = 0.5
    """M2D3: the share of memory that is divided evenly among the latent domains."""
    mapped: bool = False
    """Keep the stored images in a memory-mapped file of the run's folder instead of in RAM."""

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise UsageError(f"--memory.capacity must be at least 1, not {self.capacity}")


@dataclass(frozen=True)
class ReplayConfig:
    """What is drawn from memory at each step. The same budget for every method that replays."""

    batches: int = 1
    """Stored task batches replayed at each step."""
    sampler: Literal["pets", "uniform"] = "pets"
    """m2d3-pets only: draw by gradient norm (PETS) or uniformly."""
    weighted: bool = True
    """PETS: weigh each draw so that the estimate stays unbiased; off is Algorithm 3 as printed."""
    refresh_every: int = 25
    """PETS: steps after which a cluster that was not replayed has its gradient norm refreshed."""
    refresh_batches: int = 2
    """PETS: stored batches of each cluster that a refresh looks at (the paper's R)."""
    balance: bool = False
    """m2d3-pets, balanced-oracle: weigh the replay term by the number of latent domains that it
    stands for."""
    dark: float = 0.0
    """Weight of holding the learner to the query logits it had when a batch was stored. Needs
    classes that are not turned: --transform.turn 0 or --fresh off."""


@dataclass(frozen=True)
class TransformConfig:
    """How much fresh tasks (--fresh) differ from stored ones: the same for every method."""

    shift: float = 0.107
    """Shift every image at random by up to this share of its side; 0.107 is 3 of 28 pixels."""
    turn: float = 0.75
    """Turn this share of the classes by a quarter, a half or three quarters of a circle: a turned
    class is one more class. 0.75 has all four directions equally often."""

    def __post_init__(self) -> None:
        if not 0 <= self.shift < 0.5:
            raise UsageError(f"--transform.shift must be within 0..0.5, not {self.shift}")
        if not 0 <= self.turn <= 1:
            raise UsageError(f"--transform.turn must be within 0..1, not {self.turn}")


@dataclass(frozen=True)
class BaselineConfig:
    """Settings of the baselines."""

    mir_candidates: int = 16
    """MIR: stored batches that are scored at each step."""
    gss_compare: int = 10
    """GSS: stored batches whose gradients an arriving one's is compared with at each step."""
    gss_gate: Literal["relative", "none", "original"] = "relative"
    """GSS: a full memory considers only what is less like the others than what would leave for it,
    or everything, or (the original) only what points away from all compared gradients."""
    agem_project: Literal["update", "gradient"] = "update"
    """A-GEM: project what the optimiser applies, or the gradient before it as in its paper."""
    mer_alpha: float = 0.1
    """MER: learning rate of the plain gradient steps within a batch."""
    mer_beta: float = 1.0
    """MER: how far the weights follow the end of those steps (Reptile); 1 goes all the way."""


def refuse_idle_options(
    method: str, replay: ReplayConfig, fresh: Fresh, transform: TransformConfig
) -> None:
    """Refuse a replay option that would do nothing in this method, or not what it says."""
    asked = [name for name in ("dark", "balance") if getattr(replay, name)]
    for option in asked:
        if method in ("sequential", "joint", "independent"):
            why = "replays nothing"
        elif method in ("agem", "mer"):
            why = "has no replay term in its objective"
        elif option == "balance" and method not in ("m2d3-pets", "balanced-oracle"):
            why = "has no latent domains"
        else:
            continue
        raise UsageError(f"{method} {why}, so --replay.{option} would do nothing: leave it out")
    if replay.dark and fresh != "off" and transform.turn:
        raise UsageError(
            "--replay.dark holds a task to the logits it had when it was stored, and a turned "
            "class is another class: add --transform.turn 0 or --fresh off"
        )
