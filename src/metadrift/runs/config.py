"""The configuration of a run: dataclasses whose field docstrings are the --help.

`to_toml` and `from_toml` carry it to `config.toml` and back without loss.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from metadrift.detection.config import DetectionConfig
from metadrift.errors import MetadriftError, UsageError
from metadrift.methods.config import (
    BaselineConfig,
    Fresh,
    MemoryConfig,
    MethodName,
    ReplayConfig,
    TransformConfig,
    refuse_idle_options,
)
from metadrift.storage import tables

MethodOrStream = Literal[MethodName, "joint", "independent"]
LearnerName = Literal["protonet", "anil", "maml", "ridge"]


@dataclass(frozen=True)
class LearnerConfig:
    """The meta-learner's settings."""

    filters: int | None = None
    """Filters of each conv block; by default the paper's (64 for protonet and ridge, else 48)."""
    normalisation: Literal["batch", "running"] = "batch"
    """Statistics of the task's own images, or running averages when scoring."""
    inner_steps: int = 5
    """anil, maml: gradient steps of the inner loop."""
    inner_lr: float | None = None
    """anil, maml: learning rate of the inner loop; by default the learner's own."""
    first_order: bool = False
    """anil, maml: leave out second derivatives."""


@dataclass(frozen=True)
class RunSettings:
    """What the runs of a comparison have in common: benchmark, task geometry, budgets."""

    benchmark: str = "builtin"
    """A benchmark's name, or the path of a TOML file that lists packs and steps."""
    scale: float = 1.0
    """Shrink steps, memory and detection windows together."""
    ways: int = 5
    """Classes of a task."""
    queries: int = 10
    """Query images of each class."""
    only: str | None = None
    """Train and test on this domain of the benchmark alone."""
    lr: float = 0.001
    """Adam's learning rate."""
    size: int = 28
    """Side of the built-in domains' images; packs have their own."""
    fresh: Fresh = "all"
    """Which tasks are changed a little each time they are trained on: arriving and replayed ones,
    replayed ones only, or none (off is the paper). The same for every method; see --transform."""
    labels: Literal["detected", "oracle"] = "detected"
    """m2d3-pets: latent domains by detection, or the true ones, which is an oracle."""
    test_tasks: int = 750
    """Unseen tasks of each domain in the final evaluation."""
    stage_tasks: int = 100
    """Unseen tasks of each domain after each true segment (for forgetting); 0 leaves it out."""
    split: Literal["test", "val"] = "test"
    """Classes of the evaluation; choose settings on val only."""
    checkpoint_every: int = 500
    """Steps between two checkpoints."""
    keep: int = 2
    """Checkpoints kept."""
    log_every: int = 10
    """Steps between two lines of metrics.jsonl."""
    variance_every: int = 0
    """Measure the replay gradient's variance, PETS against uniform, every so many steps."""
    tensorboard: bool = False
    """Also write live curves for TensorBoard (the extra metadrift[tensorboard])."""
    on_nan: Literal["stop", "skip"] = "stop"
    """What to do when the loss or a gradient is NaN or infinite; skip counts such steps."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    threads: int | None = None
    """Threads of torch; by default torch's own choice."""
    data: Path | None = None
    """Folder of the packs; by default METADRIFT_DATA or the user's data folder."""
    learn: LearnerConfig = field(default_factory=LearnerConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    transform: TransformConfig = field(default_factory=TransformConfig)
    detection: DetectionConfig = field(default_factory=DetectionConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)

    def __post_init__(self) -> None:
        whole = ("queries", "test_tasks", "checkpoint_every", "keep", "log_every")
        least = dict.fromkeys(whole, 1) | {"stage_tasks": 0, "variance_every": 0, "threads": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise UsageError(f"--{name.replace('_', '-')} must be at least {lowest}")
        if self.ways < 2:
            raise UsageError("--ways must be at least 2")
        if not 0 < self.scale <= 1:
            raise UsageError(f"--scale must be above 0 and at most 1, not {self.scale}")
        if not 0 < self.lr <= 1e30:  # torch cannot turn more into a step
            raise UsageError(f"--lr must be above 0 and at most 1e30, not {self.lr}")


@dataclass(frozen=True)
class RunConfig(RunSettings):
    """One run: a method and a learner on a benchmark."""

    method: MethodOrStream = "m2d3-pets"
    """How to learn from the stream; joint and independent are the upper bounds."""
    learner: LearnerName = "protonet"
    """The few-shot learner."""
    shots: int = 1
    """Support images of each class."""
    seed: int = 0
    """Everything random follows from this number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shots < 1:
            raise UsageError("--shots must be at least 1")
        if self.seed < 0:
            raise UsageError("--seed must be 0 or more")
        if self.labels == "oracle" and self.method not in ("m2d3-pets", "balanced-oracle"):
            raise UsageError(f"{self.method} has no latent domains: leave --labels oracle out")
        refuse_idle_options(self.method, self.replay, self.fresh, self.transform)


def mark_of(method: str, oracle: bool) -> str:
    """What stands behind the name of a row that is a bound and not a method's result.

    Examples
    --------
    >>> mark_of("joint", oracle=False), mark_of("m2d3-pets", oracle=True), mark_of("mir", False)
    (' (upper bound)', ' (oracle)', '')
    """
    if oracle:
        return " (oracle)"
    return " (upper bound)" if method in ("joint", "independent") else ""


def describe_fresh(fresh: Fresh, transform: TransformConfig) -> str:
    """Which tasks a run changed before it trained on them, and how.

    Examples
    --------
    >>> describe_fresh("all", TransformConfig())
    'arriving and replayed, images shifted by up to 0.107, 0.75 of the classes turned'
    >>> describe_fresh("off", TransformConfig())
    'none'
    """
    if fresh == "off" or not (transform.shift or transform.turn):
        return "none"
    parts = ["arriving and replayed" if fresh == "all" else "replayed only"]
    parts += [f"images shifted by up to {transform.shift:g}"] if transform.shift else []
    parts += [f"{transform.turn:g} of the classes turned"] if transform.turn else []
    return ", ".join(parts)


def to_toml(config: RunConfig) -> str:
    """The configuration as TOML: plain values first, then a table for each group."""
    return tables.to_toml(config)


def from_toml(text: str, where: str = "config.toml") -> RunConfig:
    """Read a configuration; what is left out keeps its default."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise MetadriftError(f"{where} is not TOML: {error}") from None
    return from_table(table, where)


def from_table(table: dict[str, Any], where: str) -> RunConfig:
    """A configuration from a table of settings, checked setting by setting."""
    config = _build(RunConfig, table, where)
    assert isinstance(config, RunConfig)
    return config


def load_config(path: Path) -> RunConfig:
    """Read a configuration file; a benchmark file and a data folder in it count from its place."""
    try:
        config = from_toml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise MetadriftError(f"configuration {path} cannot be read: {error}") from None
    benchmark, data = config.benchmark, config.data
    if benchmark.endswith(".toml"):
        benchmark = str(path.parent / benchmark)
    return dataclasses.replace(config, benchmark=benchmark, data=data and path.parent / data)


def _build(kind: type, table: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(kind)
    unknown = set(table) - set(hints)
    if unknown:
        raise MetadriftError(f"{where}: there is no setting {sorted(unknown)[0]!r}")
    values = {key: _value(hints[key], value, f"{where}: {key}") for key, value in table.items()}
    try:
        return kind(**values)
    except UsageError as error:
        raise MetadriftError(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict):
            raise MetadriftError(f"{where} must be a table")
        return _build(hint, value, where)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(h for h in typing.get_args(hint) if h is not type(None))
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            raise MetadriftError(f"{where} must be one of {', '.join(map(str, choices))}")
        return value
    if hint is float and type(value) is int:
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if type(value) is not hint:
        raise MetadriftError(f"{where} must be {hint.__name__}, not {value!r}")
    return value
