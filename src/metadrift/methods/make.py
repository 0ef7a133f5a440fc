"""Make a method from its name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from metadrift import registry
from metadrift.detection import ChangeDetector, LatentDomains
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import UsageError
from metadrift.learners import MetaLearner
from metadrift.memory import Buffer, Memory
from metadrift.methods.base import Method
from metadrift.methods.config import (
    BaselineConfig,
    Fresh,
    MemoryConfig,
    ReplayConfig,
    TransformConfig,
    refuse_idle_options,
)
from metadrift.methods.parts import MethodParts
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import PETS, FreshTasks, LearnedReplay, ReplaySampler, Resplit, Shift, Turn
from metadrift.replay.vector_transforms import Drop, Mix, Span


def make_method(
    name: str | type[Method],
    learner: MetaLearner,
    optimizer: torch.optim.Optimizer,
    *,
    seed: int,
    buffer: Buffer | None = None,
    memory: MemoryConfig | None = None,
    replay: ReplayConfig | None = None,
    baseline: BaselineConfig | None = None,
    fresh: Fresh = "all",
    transform: TransformConfig | None = None,
    features: FeatureExtractor | None = None,
    detector: ChangeDetector | None = None,
    domains: LatentDomains | None = None,
    options: Mapping[str, Any] | None = None,
    memory_class: type[Memory] | None = None,
    sampler: ReplaySampler | None = None,
) -> Method:
    """A method by name, by reference or by its class. It trains on fresh tasks unless that is off.

    Methods with a memory need `buffer`. Methods that detect changes need `features` and
    `detector`; `domains` numbers their latent domains. `options` are the settings for the
    plug-ins' own `Options`. `memory_class` and `sampler` are used instead of those that `memory`
    and `replay` name.
    """
    memory, replay = memory or MemoryConfig(), replay or ReplayConfig()
    transform, options = transform or TransformConfig(), options or {}
    kind = find_method(name)
    said = name if isinstance(name, str) else name.__name__
    refuse_idle_options(said, replay, fresh, transform)
    if issubclass(kind, ReplayingMethod) and buffer is None:
        raise UsageError(f"{said} keeps a memory: pass buffer=")
    memory_class = memory_class or find_memory(memory)
    sampler = sampler or find_sampler(replay, options)
    refuse_idle_parts(kind, said, memory_class, sampler)
    own = registry.own_options(kind, options)
    method = kind.make(
        MethodParts(
            learner,
            optimizer,
            seed,
            buffer,
            memory,
            replay,
            baseline or BaselineConfig(),
            features,
            detector,
            domains,
            own,
            memory_class,
            options,
        )
    )
    method.options = own
    if sampler is not None and isinstance(method, ReplayingMethod):
        method.sampler = sampler
    mine = transform.only_for(learner.example)
    every = (
        Turn(mine.turn),
        Shift(mine.shift),
        Span(mine.span),
        Mix(mine.mix),
        Drop(mine.drop),
        Resplit(mine.resplit),
    )
    changes = [change for change in every if change.share]
    method.fresh_tasks = FreshTasks(fresh, changes, seed)
    return method


def find_method(name: str | type[Method]) -> type[Method]:
    """The class of a method."""
    return registry.subclass("methods", name, Method)


def find_memory(config: MemoryConfig) -> type[Memory] | None:
    """The class of the memory that the settings name; None for the method's own."""
    return None if config.rule is None else registry.subclass("memories", config.rule, Memory)


def find_sampler(config: ReplayConfig, options: Mapping[str, Any]) -> ReplaySampler | None:
    """The sampler that the settings name, with its settings; None for the method's own."""
    if config.sampler is None:
        return None
    every, batches = config.refresh_every, config.refresh_batches
    if config.sampler == "pets":
        return PETS(weighted=config.weighted, every=every, batches=batches)
    if config.sampler == "learned":
        return LearnedReplay(every=every, batches=batches)
    kind = registry.subclass("samplers", config.sampler, ReplaySampler)
    return registry.made(kind, options=options)


def refuse_idle_parts(
    kind: type[Method],
    said: str,
    memory_class: type[Memory] | None,
    sampler: ReplaySampler | None,
) -> None:
    """Refuse a memory or a sampler that the method would not use."""
    replaying = kind if issubclass(kind, ReplayingMethod) else None
    if memory_class is not None and not (replaying and replaying.chooses_memory):
        why = "has a memory of its own" if replaying else "keeps nothing"
        raise UsageError(f"{said} {why}, so --memory would do nothing: leave it out")
    if sampler is not None and not (replaying and replaying.draws):
        why = "chooses what it replays itself" if replaying else "replays nothing"
        raise UsageError(f"{said} {why}, so --sampler would do nothing: leave it out")
