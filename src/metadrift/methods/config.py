"""The settings of memory and replay. Field docstrings are the --help of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from metadrift.errors import UsageError
from metadrift.memory.gss import Gate

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
    augment: float | None = None
    """Shift every replayed image at random by up to this share of its side; 0 replays as stored. By
    default 0.107 (3 of 28 pixels) in m2d3-pets, and 0 in the others, as their papers have it."""
    turn: float | None = None
    """Turn this share of the classes of replayed tasks by a quarter, a half or three quarters of a
    circle: classes that memory does not hold. By default 0.75 in m2d3-pets (all four directions
    equally often), and 0 in the others and beside dark replay."""
    balance: bool = False
    """Weigh the replay term by the number of latent domains that it stands for."""
    dark: float = 0.0
    """Weight of holding the learner to the query logits it had when a batch was stored."""


@dataclass(frozen=True)
class BaselineConfig:
    """Settings of the baselines."""

    mir_candidates: int = 16
    """MIR: stored batches that are scored at each step."""
    gss_compare: int = 10
    """GSS: stored batches whose gradients an arriving one's is compared with at each step."""
    gss_gate: Gate = "relative"
    """GSS: a full memory considers only what is less like the others than what would leave for it,
    or everything, or (the original) only what points away from all compared gradients."""
    agem_project: Literal["update", "gradient"] = "update"
    """A-GEM: project what the optimiser applies, or the gradient before it as in its paper."""
    mer_alpha: float = 0.1
    """MER: learning rate of the plain gradient steps within a batch."""
    mer_beta: float = 1.0
    """MER: how far the weights follow the end of those steps (Reptile); 1 goes all the way."""
