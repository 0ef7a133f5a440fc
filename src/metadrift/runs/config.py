"""The configuration of a run: dataclasses whose field docstrings are the --help.

`to_toml` and `from_toml` write and read `config.toml` without loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from metadrift import registry
from metadrift.detection.config import DetectionConfig
from metadrift.errors import UsageError
from metadrift.methods.config import (
    BaselineConfig,
    Fresh,
    MemoryConfig,
    OptimConfig,
    ReplayConfig,
    TransformConfig,
    refuse_idle_optimizer,
    refuse_idle_options,
)
from metadrift.storage import tables
from metadrift.storage.reading import parse_toml, read_toml

STREAMS = ("joint", "independent")
"""Names for --method that are streams: the upper bounds."""


SHORT = {
    "detector": ("detection", "mode"),
    "features": ("detection", "features"),
    "memory": ("memory", "rule"),
    "sampler": ("replay", "sampler"),
}
"""Short names of the settings that name a part, and their places."""


@dataclass(frozen=True)
class LearnerConfig:
    """The meta-learner's settings."""

    filters: int | None = None
    """Width of the backbone: filters per conv block, by default the paper's (64 for protonet
    and ridge, else 48); of resnet12's first block (64); of the layers of mlp (256)."""
    normalisation: Literal["batch", "running"] = "batch"
    """Statistics of the task's own images, or running averages in evaluation."""
    inner_steps: int = 5
    """anil, maml: gradient steps of the inner loop."""
    inner_lr: float | None = None
    """anil, maml: learning rate of the inner loop; by default the learner's own."""
    first_order: bool = False
    """anil, maml: leave out second derivatives."""
    average: float = 0.0
    """Evaluate a moving average of the weights with this decay, such as 0.999. 0 evaluates the last
    weights. Training is the same in both cases."""

    def __post_init__(self) -> None:
        if not 0 <= self.average < 1:
            raise UsageError(f"--learn.average must be 0 or more and below 1, not {self.average}")


@dataclass(frozen=True)
class RunSettings:
    """Settings that all runs of a comparison share: benchmark, task geometry, budgets."""

    benchmark: str = "builtin"
    """A benchmark's name, or the path of a TOML file that lists packs and steps."""
    scale: float = 1.0
    """Shrink steps, memory and detection windows together."""
    ways: int = 5
    """Classes per task."""
    queries: int = 10
    """Queries per class."""
    backbone: str | None = None
    """The network inside the learner: a name of the list below, package.module:Name or
    file.py:Name. By default conv4 for pictures (conv5 for protonet from 64 px), mlp for others."""
    ways_in_training: int | None = None
    """protonet, ridge: combine the tasks of a step in training until they have this many classes, a
    multiple of --ways. Only tasks of one batch, or (m2d3-pets) of one latent domain, are combined.
    By default tasks are not combined. Evaluation does not change."""
    tasks_per_step: int | None = None
    """Tasks that arrive in a step, by default the benchmark's number. Joint training replays
    nothing: twice the number gives it as many trained tasks as methods that replay one batch."""
    only: str | None = None
    """Train and test only on this domain of the benchmark."""
    lr: float = 0.001
    """The optimiser's learning rate."""
    size: int = 28
    """Side of the built-in domains' images; packs have their own."""
    fresh: Fresh = "all"
    """Tasks to transform a little each time they are trained on: arriving and replayed ones,
    replayed ones only, or none (as in the paper). The same for every method; see --transform."""
    rehearse: float = 0.0
    """After the stream, train copies of the learner on memory alone, for this share of the stream's
    steps in all, such as 0.1; evaluation uses them. m2d3-pets trains a copy for each latent domain,
    and a task goes to the one whose tasks it looks like. Other methods that replay have one copy.
    0 leaves it out."""
    labels: Literal["detected", "oracle"] = "detected"
    """m2d3-pets: latent domains by detection, or the true domains (an oracle)."""
    test_tasks: int = 750
    """Unseen tasks per domain in the final evaluation."""
    test_precision: float = 0.0
    """Stop testing a domain once its 95 % interval is at most this many percentage points on each
    side, such as 0.5. 0 never stops early. All methods get the same tasks in the same order."""
    stage_tasks: int = 100
    """Unseen tasks per domain after each true segment, for forgetting; 0 for none, and never more
    than in the final evaluation."""
    split: Literal["test", "val"] = "test"
    """Classes of the evaluation; choose settings on val only."""
    checkpoint_every: int = 500
    """Steps between two checkpoints."""
    keep: int = 2
    """Checkpoints kept."""
    log_every: int = 10
    """Steps between two lines of metrics.jsonl."""
    variance_every: int = 0
    """Steps between two measurements of the replay gradient's variance, PETS against uniform."""
    csv: bool = False
    """Also write metrics.csv, a table of the lines of metrics.jsonl."""
    tensorboard: bool = False
    """Also write live curves for TensorBoard (the extra metadrift[tensorboard])."""
    on_nan: Literal["stop", "skip"] = "stop"
    """What to do when the loss or a gradient is NaN or infinite; skip counts such steps."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    precision: Literal["auto", "float32", "bf16"] = "float32"
    """Number type of the network. bf16 uses bfloat16 for its activations only. auto takes bf16 if
    the machine has it in hardware and a short test finds it faster."""
    threads: int | None = None
    """Threads of torch; by default torch's own choice."""
    data: Path | None = None
    """Folder of the packs; by default METADRIFT_DATA or the user's data folder."""
    learn: LearnerConfig = field(default_factory=LearnerConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    transform: TransformConfig = field(default_factory=TransformConfig)
    detection: DetectionConfig = field(default_factory=DetectionConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)

    def __post_init__(self) -> None:
        whole = ("queries", "test_tasks", "checkpoint_every", "keep", "log_every")
        least = dict.fromkeys(whole, 1) | {"stage_tasks": 0, "variance_every": 0, "threads": 1}
        least |= {"test_precision": 0, "tasks_per_step": 1, "rehearse": 0}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise UsageError(f"--{name.replace('_', '-')} must be at least {lowest}")
        if self.ways < 2:
            raise UsageError("--ways must be at least 2")
        if self.backbone is not None:
            registry.check("backbones", self.backbone)
        if (self.ways_in_training or self.ways) % self.ways or self.tasks_together < 1:
            raise UsageError(
                f"--ways-in-training must be a multiple of the {self.ways} ways of a task, not "
                f"{self.ways_in_training}"
            )
        if not 0 < self.scale <= 1:
            raise UsageError(f"--scale must be above 0 and at most 1, not {self.scale}")
        if not 0 < self.lr <= 1e30:  # torch fails on larger ones
            raise UsageError(f"--lr must be above 0 and at most 1e30, not {self.lr}")

    @property
    def tasks_together(self) -> int:
        """The number of tasks in one task of `ways_in_training` classes."""
        return 1 if self.ways_in_training is None else self.ways_in_training // self.ways


@dataclass(frozen=True)
class RunConfig(RunSettings):
    """One run: a method and a learner on a benchmark."""

    method: str = "m2d3-pets"
    """How to learn from the stream: a name from the list below, joint or independent (the upper
    bounds), package.module:Name or file.py:Name."""
    learner: str = "protonet"
    """The few-shot learner: a name from the list below, package.module:Name or file.py:Name."""
    shots: int = 1
    """Support examples per class."""
    seed: int = 0
    """The seed of all random numbers."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options of plug-ins: --options.NAME VALUE."""

    def __post_init__(self) -> None:
        super().__post_init__()
        registry.check("methods", self.method, also=STREAMS)
        registry.check("learners", self.learner)
        if self.shots < 1:
            raise UsageError("--shots must be at least 1")
        if self.tasks_together > 1 and self.learner in ("anil", "maml"):
            raise UsageError(
                f"{self.learner} has a head for the ways of a task: leave --ways-in-training out"
            )
        if self.seed < 0:
            raise UsageError("--seed must be 0 or more")
        detects = self.method in ("m2d3-pets", "balanced-oracle")
        if self.labels == "oracle" and not detects and not registry.is_reference(self.method):
            raise UsageError(f"{self.method} has no latent domains: leave --labels oracle out")
        if self.rehearse and self.method in ("sequential", *STREAMS):
            raise UsageError(
                f"{self.method} has no memory, so --rehearse would do nothing: leave it out"
            )
        refuse_idle_optimizer(self.method, self.optim)
        refuse_idle_options(self.method, self.replay, self.fresh, self.transform)

    @property
    def oracle(self) -> bool:
        """True if the run uses ground-truth domain labels, which no method has."""
        return self.method == "balanced-oracle" or self.labels == "oracle"


def mark_of(method: str, oracle: bool) -> str:
    """A mark to put after the name of a row that is a bound, not a method's result.

    Examples
    --------
    >>> mark_of("joint", oracle=False), mark_of("m2d3-pets", oracle=True), mark_of("mir", False)
    (' (upper bound)', ' (oracle)', '')
    """
    if oracle:
        return " (oracle)"
    return " (upper bound)" if method in ("joint", "independent") else ""


def describe_fresh(fresh: Fresh, transform: TransformConfig) -> str:
    """The tasks that a run transforms before training on them, and how.

    Examples
    --------
    >>> describe_fresh("all", TransformConfig())
    'arriving and replayed, images shifted by up to 0.107, 0.75 of the classes turned'
    >>> describe_fresh("replay", TransformConfig(shift=0, turn=0, span=0.5))
    'replayed only, noise of 0.5 of the spread of a class'
    >>> describe_fresh("off", TransformConfig())
    'none'
    """
    texts = {
        "shift": "images shifted by up to {:g}",
        "turn": "{:g} of the classes turned",
        "resplit": "{:g} of the tasks split anew into support and queries",
        "span": "noise of {:g} of the spread of a class",
        "mix": "examples mixed with others of their class by up to {:g}",
        "drop": "{:g} of the numbers dropped",
    }
    strength = {name: getattr(transform, name) for name in texts}
    parts = [texts[name].format(value) for name, value in strength.items() if value]
    if fresh == "off" or not parts:
        return "none"
    return ", ".join(["arriving and replayed" if fresh == "all" else "replayed only", *parts])


def to_toml(config: RunConfig) -> str:
    """The configuration as TOML: plain values first, then a table for each group."""
    return tables.to_toml(config)


def from_toml(text: str, where: str = "config.toml") -> RunConfig:
    """Read a configuration. Settings that are left out keep their defaults."""
    return from_table(parse_toml(text, where), where)


def from_table(table: dict[str, Any], where: str) -> RunConfig:
    """A configuration from a table of settings, checked setting by setting."""
    return tables.from_table(RunConfig, spelled_out(table), where)


def spelled_out(table: dict[str, Any]) -> dict[str, Any]:
    """A table of settings with the short names of parts in their places.

    Examples
    --------
    >>> spelled_out({"sampler": "uniform", "memory": "reservoir", "replay": {"batches": 2}})
    {'replay': {'batches': 2, 'sampler': 'uniform'}, 'memory': {'rule': 'reservoir'}}
    """
    named = {key for key in SHORT if key in table and not isinstance(table[key], dict)}
    found = {key: value for key, value in table.items() if key not in named}
    for short in sorted(named):
        group, name = SHORT[short]
        others = found.get(group, {})
        found[group] = {**others, name: table[short]} if isinstance(others, dict) else others
    return found


def load_config(path: Path | None, benchmark: str | None = None) -> RunConfig:
    """Read a configuration file, on another benchmark if one is given.

    Paths in the file are relative to its folder. What it leaves out comes from the benchmark's own
    settings, then from the defaults.
    """
    table, where = ({}, "settings") if path is None else (read_toml(path), str(path))
    config = from_table(table, where)
    if benchmark is None:
        benchmark = config.benchmark
        if path is not None and benchmark.endswith(".toml"):
            benchmark = str(path.parent / benchmark)
    # A path may hold bytes that are not text, which no table can.
    config = replace(from_table(with_benchmark(table, benchmark), where), benchmark=benchmark)
    data = config.data
    return config if path is None or data is None else replace(config, data=path.parent / data)


def with_benchmark(table: dict[str, Any], benchmark: object = None) -> dict[str, Any]:
    """A table of settings on top of those of a benchmark's file: its own, if no other is given."""
    table = spelled_out(table)
    benchmark = benchmark or table.get("benchmark", RunSettings.benchmark)
    if not isinstance(benchmark, str) or not Path(benchmark).is_file():
        return table  # those of the package have none; a wrong one is refused when it is used
    from metadrift.streams.benchmark import load_benchmark  # loads torch

    begin = load_benchmark(benchmark).settings
    where = f"benchmark {benchmark}: settings"
    for name in begin:
        if name in _NOT_IN_A_BENCHMARK:
            raise UsageError(f"{where}: {name} is set by the run, not by the benchmark")
    from_table(begin, where)  # a mistake in them is told as theirs
    return tables.merged(spelled_out(begin), table)


_NOT_IN_A_BENCHMARK = ("benchmark", "scale", "only", "data", "seed")
