"""Build the parts of a run from its configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from metadrift import registry
from metadrift.data.pack import Pack
from metadrift.data.sampler import TaskSampler
from metadrift.detection import ChangeDetector, LatentDomains, make_detector
from metadrift.detection.features import FeatureExtractor, make_features
from metadrift.distributed.features import SharedFeatures
from metadrift.distributed.group import Group
from metadrift.errors import UsageError
from metadrift.examples import ExampleKind
from metadrift.learners import MetaLearner, find_learner, make_learner, pick_device
from metadrift.learners.base import Precision
from metadrift.learners.inner_loop import InnerLoopLearner
from metadrift.memory import Buffer
from metadrift.methods.average import WeightAverage
from metadrift.methods.base import Method
from metadrift.methods.make import find_method, make_method
from metadrift.methods.optimisation import Schedule, make_optimizer
from metadrift.methods.replaying import ReplayingMethod
from metadrift.runs.config import STREAMS, RunConfig
from metadrift.runs.oracle import NoFeatures, OracleDetector, OracleDomains
from metadrift.runs.plugins import (
    HandedIn,
    method_class,
    plugin_classes,
    refuse_idle_detection,
)
from metadrift.runs.stream_clock import StreamClock
from metadrift.streams import Benchmark, JointStream, TaskStream, Truth, load_benchmark, open_packs
from metadrift.tasks import TaskGeometry


@dataclass(frozen=True)
class Parts:
    """All parts of one run. `truth` and `tests` never reach the method."""

    benchmark: Benchmark
    packs: dict[str, Pack]
    stream: TaskStream
    learner: MetaLearner
    method: Method
    buffer: Buffer | None
    truth: Truth | None
    """None for joint training, which has no order of domains."""
    tests: dict[str, TaskSampler]
    """Samplers of each domain's unseen classes; without domains that have none for --split val."""
    clock: StreamClock
    """Turns the steps that the method counts into those of the stream."""


def build(
    config: RunConfig, folder: Path, group: Group | None = None, given: HandedIn | None = None
) -> Parts:
    """Make the parts. Generates the built-in domains if they do not exist yet.

    The parts `given` are used instead of those that the settings name.
    """
    group, given = group or Group(), given or HandedIn()
    benchmark = plan(config, group)
    packs = open_packs(benchmark, config.data, config.size)
    geometry = TaskGeometry(config.ways, config.shots, config.queries)
    joint = config.method == "joint"
    kind = JointStream if joint else TaskStream
    context = config.method == "m2d3-pets" and config.detection.context
    stream = kind(benchmark, packs, geometry, config.seed, context=context)
    stream.share = group.share(stream.tasks_per_step)
    truth = None if joint else Truth(benchmark.segments)
    device = pick_device(config.device)
    learner = build_learner(config, stream.kind).to(device)
    buffer = None
    if issubclass(given.method or method_class(config), ReplayingMethod):
        # Each of n processes stores 1/n of every batch.
        capacity = config.memory.capacity or benchmark.memory
        buffer = Buffer(
            capacity * group.size if config.memory.per_process else capacity,
            stream.tasks_per_step // group.size,
            geometry,
            stream.kind,
            file=folder / _memory_file(group) if config.memory.mapped else None,
            logits=config.replay.dark > 0,
        )
    clock = StreamClock()
    method = build_method(
        config,
        learner,
        buffer,
        stream.kind,
        truth=truth,
        clock=clock,
        group=group,
        steps=len(stream),
        given=given,
    )
    tests = {
        name: TaskSampler(packs[name], config.split, geometry, stream.kind)
        for name in scored_domains(config, benchmark, packs)
    }
    return Parts(benchmark, packs, stream, learner, method, buffer, truth, tests, clock)


def scored_domains(config: RunConfig, benchmark: Benchmark, packs: dict[str, Pack]) -> list[str]:
    """All domains, or with --split val those that have validation classes."""
    test = config.split == "test"
    names = [name for name in benchmark.domains if test or packs[name].classes("val")]
    if not names:
        raise UsageError(f"no domain of {benchmark.name!r} has validation classes for --split val")
    return names


def plan(config: RunConfig, group: Group | None = None) -> Benchmark:
    """The benchmark at the run's scale. Raises if the processes cannot divide its tasks."""
    benchmark = load_benchmark(config.benchmark).scaled(config.scale)
    if config.tasks_per_step is not None:
        benchmark = replace(benchmark, tasks_per_step=config.tasks_per_step)
    if group is not None and group.size > 1:
        _check_division(config, benchmark, group.size)
    if config.only is None:
        return benchmark
    if config.only not in benchmark.domains:
        raise UsageError(f"benchmark {benchmark.name!r} has no domain {config.only!r}")
    return benchmark.only(config.only)


def build_learner(
    config: RunConfig, example: ExampleKind, backbone: str | nn.Module | None = None
) -> MetaLearner:
    """The learner of the settings; a backbone given here is used instead of theirs."""
    kind = find_learner(config.learner)
    options: dict[str, Any] = {}
    if kind.Options is not None:
        options["options"] = registry.own_options(kind, config.options)
    if issubclass(kind, InnerLoopLearner):
        options |= {"inner_steps": config.learn.inner_steps}
        options |= {"first_order": config.learn.first_order}
        if config.learn.inner_lr is not None:
            options["inner_lr"] = config.learn.inner_lr
    return make_learner(
        config.learner,
        example=example,
        ways=config.ways,
        generator=config.seed,
        normalisation=config.learn.normalisation,
        backbone=backbone or config.backbone,
        backbone_options=config.options,
        filters=None if isinstance(backbone, nn.Module) else config.learn.filters,
        precision=cast(Precision, config.precision),  # `auto` was replaced or refused before
        **options,
    )


def build_method(
    config: RunConfig,
    learner: MetaLearner,
    buffer: Buffer | None,
    example: ExampleKind,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    truth: Truth | None = None,
    clock: StreamClock | None = None,
    group: Group | None = None,
    steps: int | None = None,
    given: HandedIn | None = None,
) -> Method:
    """The method of the settings, with a custom optimiser if one is given.

    `steps` is the length of the stream, where it is known; the parts `given` are used instead of
    those that the settings name.
    """
    optimizer = optimizer or make_optimizer(config.optim, config.lr, learner.parameters())
    group = group or Group()
    given = given or HandedIn()
    kind = given.method or method_class(config)
    classes = [*plugin_classes(config, given), type(learner)]
    registry.refuse_unknown_options(classes, config.options)
    refuse_idle_detection(kind, config.method, config.detection)
    features: FeatureExtractor | None = None
    detector: ChangeDetector | None = None
    domains: LatentDomains | None = None
    if config.oracle:
        if not kind.detects or truth is None:
            raise UsageError(f"{config.method} has no latent domains: leave --labels oracle out")
        clock = clock or StreamClock()
        features, detector = NoFeatures(), OracleDetector(truth.changes, clock)
        labels = [truth.domains.index(domain) for domain in truth.stays]
        domains = OracleDomains(truth.changes, labels, clock)
    elif kind.detects:
        settings = config.detection.scaled(config.scale)
        features = given.features or make_features(settings, example, config.options)
        detector = given.detector or make_detector(settings, config.options)
        if given.features is not None and config.detection.returns == "auto":
            settings = replace(settings, returns="off")  # they may drift
        domains = LatentDomains(settings)
    if features is not None and group.size > 1:
        features = SharedFeatures(features, group)
    method = make_method(
        kind,
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
        domains=domains,
        options=config.options,
        memory_class=given.memory,
        sampler=given.sampler,
    )
    method.group = group
    optim = config.optim
    method.clip = optim.clip or math.inf
    if optim.schedule != "constant" or optim.warmup:
        steps = optim.steps or steps
        if steps is None and optim.schedule != "constant":
            raise UsageError("a live stream has no length: give the falling rate optim.steps")
        method.schedule = Schedule(optimizer, optim, steps or optim.warmup)
    method.tasks_together = config.tasks_together
    if config.learn.average:
        method.average = WeightAverage(learner, config.learn.average)
    return method


def _check_division(config: RunConfig, benchmark: Benchmark, processes: int) -> None:
    if not method_class(config).many_processes:
        several = [n for n in registry.built_in("methods") if find_method(n).many_processes]
        raise UsageError(
            f"{config.method} runs in one process; on several run {', '.join([*several, *STREAMS])}"
        )
    if benchmark.tasks_per_step % processes:
        raise UsageError(
            f"{processes} processes cannot divide the {benchmark.tasks_per_step} tasks per step of "
            f"benchmark {benchmark.name!r}: start as many as divide them, or set "
            "--tasks-per-step"
        )


def _memory_file(group: Group) -> str:
    return "memory.bin" if group.leads else f"memory-{group.rank}.bin"
