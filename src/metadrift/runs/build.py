"""From a configuration to the parts of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from metadrift.detection import ChangeDetector, make_detector
from metadrift.detection.features import FeatureExtractor, make_features
from metadrift.domains.pack import Pack
from metadrift.domains.sampler import TaskSampler
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


def build(config: RunConfig, folder: Path) -> Parts:
    """Make the parts; the built-in domains are generated if they are not there yet."""
    benchmark = plan(config)
    packs = open_packs(benchmark, config.data, config.size)
    geometry = TaskGeometry(config.ways, config.shots, config.queries)
    joint = config.method == "joint"
    kind = JointStream if joint else TaskStream
    stream = kind(benchmark, packs, geometry, config.seed)
    truth = None if joint else Truth(benchmark.segments)
    device = pick_device(config.device)
    learner = build_learner(config, stream.image_size).to(device)
    buffer = None
    if config.method not in ("sequential", "joint", "independent"):
        buffer = Buffer(
            config.memory.capacity or benchmark.memory,
            stream.tasks_a_step,
            geometry,
            stream.channels,
            stream.image_size,
            file=folder / "memory.bin" if config.memory.mapped else None,
            logits=config.replay.dark > 0,
        )
    method = build_method(config, learner, buffer, stream, truth)
    tests = {
        name: TaskSampler(packs[name], config.split, geometry, stream.channels)
        for name in benchmark.domains
        if config.split == "test" or packs[name].classes("val")
    }
    return Parts(benchmark, packs, stream, learner, method, buffer, truth, tests)


def plan(config: RunConfig) -> Benchmark:
    """The benchmark at the run's scale."""
    benchmark = load_benchmark(config.benchmark).scaled(config.scale)
    if config.only is None:
        return benchmark
    if config.only not in benchmark.domains:
        raise UsageError(f"benchmark {benchmark.name!r} has no domain {config.only!r}")
    return benchmark.only(config.only)


def build_learner(config: RunConfig, image_size: int) -> MetaLearner:
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
        filters=config.learn.filters,
        **options,
    )


def build_method(
    config: RunConfig,
    learner: MetaLearner,
    buffer: Buffer | None,
    stream: TaskStream,
    truth: Truth | None,
) -> Method:
    optimizer = torch.optim.Adam(learner.parameters(), lr=config.lr)
    streams = ("joint", "independent")
    name = cast(MethodName, "sequential" if config.method in streams else config.method)
    features: FeatureExtractor | None = None
    detector: ChangeDetector | None = None
    if name == "balanced-oracle" or (name == "m2d3-pets" and config.labels == "oracle"):
        assert truth is not None
        features, detector = NoFeatures(), OracleDetector(truth.changes)
    elif name == "m2d3-pets":
        settings = config.detection.scaled(config.scale)
        features = make_features(settings, stream.channels)
        detector = make_detector(settings)
    return make_method(
        name,
        learner,
        optimizer,
        seed=config.seed,
        buffer=buffer,
        memory=config.memory,
        replay=config.replay,
        baseline=config.baseline,
        features=features,
        detector=detector,
    )
