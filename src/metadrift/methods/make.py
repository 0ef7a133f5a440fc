"""Make a method from its name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from metadrift import registry
from metadrift.detection import ChangeDetector
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import UsageError
from metadrift.learners import MetaLearner
from metadrift.memory import Buffer
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
from metadrift.replay import FreshTasks, Shift, Turn
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
    options: Mapping[str, Any] | None = None,
) -> Method:
    """A method by name, by reference or by its class. It trains on fresh tasks unless that is off.

    Methods with a memory need `buffer`. Methods that detect changes need `features` and
    `detector`. `options` are the settings for a plug-in's own `Options`.
    """
    replay, transform = replay or ReplayConfig(), transform or TransformConfig()
    kind = find_method(name)
    said = name if isinstance(name, str) else name.__name__
    refuse_idle_options(said, replay, fresh, transform)
    if issubclass(kind, ReplayingMethod) and buffer is None:
        raise UsageError(f"{said} keeps a memory: pass buffer=")
    own = registry.own_options(kind, options or {})
    method = kind.make(
        MethodParts(
            learner,
            optimizer,
            seed,
            buffer,
            memory or MemoryConfig(),
            replay,
            baseline or BaselineConfig(),
            features,
            detector,
            own,
        )
    )
    method.options = own
    mine = transform.only_for(learner.example)
    every = (Turn(mine.turn), Shift(mine.shift), Span(mine.span), Mix(mine.mix), Drop(mine.drop))
    changes = [change for change in every if change.share]
    method.fresh_tasks = FreshTasks(fresh, changes, seed)
    return method


def find_method(name: str | type[Method]) -> type[Method]:
    """The class of a method."""
    kind = registry.find("methods", name) if isinstance(name, str) else name
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise UsageError(f"{name} is not a subclass of metadrift.methods.Method")
    return kind
