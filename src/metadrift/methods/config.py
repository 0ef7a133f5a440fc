"""The settings of memory, replay and fresh tasks. Field docstrings are the --help."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from metadrift import registry
from metadrift.errors import UsageError
from metadrift.examples import ExampleKind, Pictures

VECTOR_TRANSFORMS = ("span", "mix", "drop")
Fresh = Literal["all", "replay", "off"]


@dataclass(frozen=True)
class MemoryConfig:
    """Which batches memory keeps."""

    capacity: int | None = None
    """Stored task batches; by default the benchmark's number, shrunk by --scale."""
    rule: str | None = None
    """The memory to use instead of the method's own: reservoir, loss-aware, the name of an
    installed plug-in, package.module:Name or file.py:Name. In short: --memory."""
    mode: Literal["default", "learned", "paper"] = "default"
    """M2D3: quotas by difficulty, learned quotas (more for a domain that is being forgotten), or
    Algorithm 2 as the paper prints it."""
    beta: float = 0.5
    """M2D3: the weight of a domain's difficulty in its quota; 0 ignores difficulty."""
    kappa: float = 0.5
    """M2D3: the share of memory that is divided evenly among the latent domains."""
    per_process: bool = False
    """With torchrun: apply the capacity to each process, so that n processes store n times as many
    batches. Otherwise the total is the same for any number of processes."""
    mapped: bool = False
    """Keep the stored images in a memory-mapped file of the run's folder instead of in RAM."""

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise UsageError(f"--memory.capacity must be at least 1, not {self.capacity}")
        if self.rule is not None:
            registry.check("memories", self.rule)


@dataclass(frozen=True)
class ReplayConfig:
    """Which stored batches are replayed. The same budget for every method that replays."""

    batches: int = 1
    """Stored task batches replayed at each step."""
    sampler: str | None = None
    """The sampler to use instead of the method's own: by gradient norm (pets, which m2d3-pets has),
    uniformly (uniform, which the others have), by learned proportions (learned), the name of an
    installed plug-in, package.module:Name or file.py:Name. In short: --sampler."""
    weighted: bool = True
    """PETS: weigh each draw to keep the gradient unbiased; off is Algorithm 3 as printed."""
    refresh_every: int = 25
    """PETS, learned: steps after which the gradient norm of a cluster without replay is
    measured again."""
    refresh_batches: int = 2
    """PETS, learned: stored batches per cluster to measure then (the paper's R)."""
    balance: bool = False
    """m2d3-pets, balanced-oracle: weigh the replay term by the number of latent domains that it
    represents."""
    dark: float = 0.0
    """Weight of a term that keeps query logits close to those from when a batch was stored. Needs
    classes that are not turned: --transform.turn 0 or --fresh off."""

    def __post_init__(self) -> None:
        if self.sampler is not None:
            registry.check("samplers", self.sampler)


@dataclass(frozen=True)
class TransformConfig:
    """How to transform fresh tasks (--fresh). The same for every method.

    Pictures and vectors each have their own, beside resplit; those of the other kind are left out.
    """

    shift: float = 0.107
    """Shift every image at random by up to this share of its side; 0.107 is 3 of 28 pixels."""
    turn: float = 0.75
    """Turn this share of the classes by a quarter, a half or three quarters of a circle: a turned
    class is one more class. 0.75 has all four directions equally often."""
    resplit: float = 0.0
    """In this share of the tasks, draw again which examples of a class are support and which are
    queries. For pictures and vectors."""
    span: float = 0.0
    """Vectors: noise along the differences within a class, of this share of the class's spread."""
    mix: float = 0.0
    """Vectors: move every example up to this part of the way towards another one of its class."""
    drop: float = 0.0
    """Vectors: set this share of the numbers to 0, the same ones in all examples of a task."""

    def __post_init__(self) -> None:
        if not 0 <= self.shift < 0.5:
            raise UsageError(f"--transform.shift must be within 0..0.5, not {self.shift}")
        for name in ("turn", "resplit"):
            if not 0 <= getattr(self, name) <= 1:
                given = getattr(self, name)
                raise UsageError(f"--transform.{name} must be within 0..1, not {given}")
        for name, most in (("span", 10.0), ("mix", 1.0), ("drop", 0.95)):
            if not 0 <= getattr(self, name) <= most:
                given = getattr(self, name)
                raise UsageError(f"--transform.{name} must be within 0..{most:g}, not {given}")

    def only_for(self, example: ExampleKind) -> TransformConfig:
        """Those for this kind of example, the others set to 0.

        One of another kind that was set on purpose is refused.
        """
        usual, pictures = TransformConfig(), isinstance(example, Pictures)
        own = [f.name for f in fields(self) if f.name != "resplit"]
        idle = [name for name in own if (name in VECTOR_TRANSFORMS) == pictures]
        for name in idle:
            if getattr(self, name) not in (0, getattr(usual, name)):
                those = "vectors" if pictures else "pictures"
                raise UsageError(
                    f"--transform.{name} is for {those}, and these examples are {example}: leave "
                    "it out"
                )
        return replace(self, **dict.fromkeys(idle, 0.0))


@dataclass(frozen=True)
class OptimConfig:
    """The optimiser. Its learning rate is --lr."""

    name: str = "Adam"
    """An optimiser of torch.optim, such as SGD, AdamW or RMSprop, or package.module:Name or
    file.py:Name. (mer has its own steps.)"""
    options: tuple[str, ...] = ()
    """Its other parameters as NAME=VALUE, such as momentum=0.9 nesterov=true betas=[0.9,0.95]."""
    weight_decay: float = 0.0
    """Its weight decay."""
    clip: float = 0.0
    """Shorten a longer gradient to this norm; 0 changes no gradient."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """How the learning rate falls to 0, if it does."""
    warmup: int = 0
    """Steps in which the learning rate first rises to --lr."""
    steps: int | None = None
    """Steps after which a falling rate is 0; by default the length of the stream."""

    def __post_init__(self) -> None:
        for name in ("weight_decay", "clip", "warmup"):
            if getattr(self, name) < 0:
                raise UsageError(f"--optim.{name.replace('_', '-')} must be 0 or more")
        if self.steps is not None and self.steps < 1:
            raise UsageError("--optim.steps must be at least 1")
        if self.steps is not None and self.schedule == "constant":
            raise UsageError("--optim.steps is for a falling rate: add --optim.schedule cosine")


@dataclass(frozen=True)
class BaselineConfig:
    """Settings of the baselines."""

    mir_candidates: int = 16
    """MIR: stored batches that are scored at each step."""
    gss_compare: int = 10
    """GSS: stored batches to compare gradients with at each step."""
    gss_gate: Literal["relative", "none", "original"] = "relative"
    """GSS: which batches a full memory considers. relative: those less similar to others than the
    one they would replace. none: all. original: those that point away from all compared ones."""
    agem_project: Literal["update", "gradient"] = "update"
    """A-GEM: project what the optimiser applies, or the gradient before it as in its paper."""
    mer_alpha: float = 0.1
    """MER: learning rate of the plain gradient steps within a batch."""
    mer_beta: float = 1.0
    """MER: how far the weights move towards the end of those steps (Reptile); 1 is all the way."""


_WITHOUT_DOMAINS = ("reservoir", "gss", "agem", "mir", "mer", "loss-aware")


def refuse_idle_optimizer(method: str, optim: OptimConfig) -> None:
    """Refuse settings of an optimiser that the method does not use."""
    if method == "mer" and optim != OptimConfig():
        raise UsageError(
            "mer takes plain gradient steps (--baseline.mer-alpha) and uses no optimiser, so "
            "--optim would do nothing: leave it out"
        )


def refuse_idle_options(
    method: str, replay: ReplayConfig, fresh: Fresh, transform: TransformConfig
) -> None:
    """Refuse a replay option that would do nothing in this method, or something else."""
    if replay.sampler in ("pets", "learned") and method in _WITHOUT_DOMAINS:
        raise UsageError(
            f"{method} has no latent domains, so --sampler {replay.sampler} would draw uniformly: "
            "leave it out"
        )
    asked = [name for name in ("dark", "balance") if getattr(replay, name)]
    for option in asked:
        if method in ("sequential", "joint", "independent"):
            why = "replays nothing"
        elif method in ("agem", "mer"):
            why = "has no replay term in its objective"
        elif option == "balance" and method in _WITHOUT_DOMAINS:
            why = "has no latent domains"
        else:
            continue
        raise UsageError(f"{method} {why}, so --replay.{option} would do nothing: leave it out")
    if replay.dark and fresh != "off" and transform.turn:
        raise UsageError(
            "--replay.dark holds a task to the logits it had when it was stored, and a turned "
            "class is another class: add --transform.turn 0 or --fresh off"
        )
    if replay.dark and fresh != "off" and transform.resplit:
        raise UsageError(
            "--replay.dark keeps the logits of a stored task's queries, and --transform.resplit "
            "draws other queries: leave one of them out"
        )
