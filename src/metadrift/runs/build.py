"""From a configuration to the parts of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from metadrift.data.pack import Pack
from metadrift.data.sampler import TaskSampler
from metadrift.detection import ChangeDetector, make_detector
from metadrift.detection.features import FeatureExtractor, make_features
from metadrift.distributed.features import SharedFeatures
from metadrift.distributed.group import Group
from metadrift.errors import UsageError
from metadrift.learners import MetaLearner, make_learner, pick_device
from metadrift.memory import Buffer
from metadrift.methods.base import Method
from metadrift.methods.config import MethodName
from metadrift.methods.make import make_method
from metadrift.runs.config import RunConfig
from metadrift.runs.oracle import NoFeatures, OracleDetector
from metadrift.streams import Benchmark, JointStream, TaskStream, Truth, load_benchmark, open_packs
from metadrift.tasks import TaskGeometry


@dataclass(frozen=True)
class Parts:
    """Everything one run is made of. `truth` and `tests` never reach the method."""

    benchmark: Benchmark
    packs: dict[str, Pack]
    stream: TaskStream
    learner: MetaLearner
    method: Method
    buffer: Buffer | None
    truth: Truth | None
    """None for joint training, which has no order of domains."""
    tests: dict[str, TaskSampler]
    """Unseen classes of every domain; a domain without validation classes has none of those."""


# These exchange nothing but means. The others compare or chain whole gradients within a step.
_TOGETHER = (
    "sequential",
    "joint",
    "independent",
    "reservoir",
    "loss-aware",
    "m2d3-pets",
    "balanced-oracle",
)


def build(config: RunConfig, folder: Path, group: Group | None = None) -> Parts:
    """Make the parts; the built-in domains are generated if they are not there yet."""
    group = group or Group()
    benchmark = plan(config, group)
    packs = open_packs(benchmark, config.data, config.size)
    geometry = TaskGeometry(config.ways, config.shots, config.queries)
    joint = config.method == "joint"
    kind = JointStream if joint else TaskStream
    stream = kind(benchmark, packs, geometry, config.seed)
    stream.share = group.share(stream.tasks_per_step)
    truth = None if joint else Truth(benchmark.segments)
    device = pick_device(config.device)
    learner = build_learner(config, stream.image_size).to(device)
    buffer = None
    if config.method not in ("sequential", "joint", "independent"):
        # A process keeps its tasks of every stored batch: in the room of one, n times the batches.
        buffer = Buffer(
            (config.memory.capacity or benchmark.memory) * group.size,
            stream.tasks_per_step // group.size,
            geometry,
            stream.channels,
            stream.image_size,
            file=folder / _memory_file(group) if config.memory.mapped else None,
            logits=config.replay.dark > 0,
        )
    method = build_method(config, learner, buffer, stream.channels, truth=truth, group=group)
    tests = {
        name: TaskSampler(packs[name], config.split, geometry, stream.channels)
        for name in scored_domains(config, benchmark, packs)
    }
    return Parts(benchmark, packs, stream, learner, method, buffer, truth, tests)


def scored_domains(config: RunConfig, benchmark: Benchmark, packs: dict[str, Pack]) -> list[str]:
    """All domains for the test classes; those that have validation classes for --split val."""
    test = config.split == "test"
    names = [name for name in benchmark.domains if test or packs[name].classes("val")]
    if not names:
        raise UsageError(f"no domain of {benchmark.name!r} has validation classes for --split val")
    return names


def plan(config: RunConfig, group: Group | None = None) -> Benchmark:
    """The benchmark at the run's scale, which the processes must be able to divide."""
    benchmark = load_benchmark(config.benchmark).scaled(config.scale)
    if group is not None and group.size > 1:
        _check_division(config, benchmark, group.size)
    if config.only is None:
        return benchmark
    if config.only not in benchmark.domains:
        raise UsageError(f"benchmark {benchmark.name!r} has no domain {config.only!r}")
    return benchmark.only(config.only)


def build_learner(
    config: RunConfig, image_size: int, backbone: nn.Module | None = None
) -> MetaLearner:
    """The learner of the settings, around a backbone of one's own if there is one."""
    options: dict[str, Any] = {}
    if config.learner in ("anil", "maml"):
        options = {"inner_steps": config.learn.inner_steps, "first_order": config.learn.first_order}
        if config.learn.inner_lr is not None:
            options["inner_lr"] = config.learn.inner_lr
    return make_learner(
        config.learner,
        image_size=image_size,
        ways=config.ways,
        generator=config.seed,
        normalisation=config.learn.normalisation,
        backbone=backbone,
        filters=None if backbone is not None else config.learn.filters,
        **options,
    )


def build_method(
    config: RunConfig,
    learner: MetaLearner,
    buffer: Buffer | None,
    channels: int,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    truth: Truth | None = None,
    group: Group | None = None,
) -> Method:
    """The method of the settings; without an optimiser of one's own, with Adam."""
    optimizer = optimizer or torch.optim.Adam(learner.parameters(), lr=config.lr)
    group = group or Group()
    streams = ("joint", "independent")
    name = cast(MethodName, "sequential" if config.method in streams else config.method)
    features: FeatureExtractor | None = None
    detector: ChangeDetector | None = None
    if name == "balanced-oracle" or (name == "m2d3-pets" and config.labels == "oracle"):
        assert truth is not None
        features, detector = NoFeatures(), OracleDetector(truth.changes)
    elif name == "m2d3-pets":
        settings = config.detection.scaled(config.scale)
        features = make_features(settings, channels)
        detector = make_detector(settings)
    if features is not None and group.size > 1:
        features = SharedFeatures(features, group)
    method = make_method(
        name,
        learner,
        optimizer,
        seed=config.seed,
        buffer=buffer,
        memory=config.memory,
        replay=config.replay,
        baseline=config.baseline,
        fresh=config.fresh,
        transform=config.transform,
        features=features,
        detector=detector,
    )
    method.group = group
    return method


def _check_division(config: RunConfig, benchmark: Benchmark, processes: int) -> None:
    if config.method not in _TOGETHER:
        raise UsageError(
            f"{config.method} runs in one process; on several run {', '.join(_TOGETHER)}"
        )
    if benchmark.tasks_per_step % processes:
        raise UsageError(
            f"{processes} processes cannot divide the {benchmark.tasks_per_step} tasks a step of "
            f"benchmark {benchmark.name!r}: start as many as divide them, or set "
            "tasks_per_step in a benchmark file of your own"
        )


def _memory_file(group: Group) -> str:
    return "memory.bin" if group.leads else f"memory-{group.rank}.bin"
