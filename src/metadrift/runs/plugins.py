"""The classes that a run is made of, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from metadrift import registry
from metadrift.detection import ChangeDetector
from metadrift.detection.config import DetectionConfig
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import UsageError
from metadrift.learners import find_learner
from metadrift.learners.networks import find_backbone
from metadrift.memory import Memory
from metadrift.methods.base import Method
from metadrift.methods.make import find_memory, find_method
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import ReplaySampler
from metadrift.runs.config import STREAMS, RunConfig
from metadrift.storage.files import plain


@dataclass(frozen=True)
class HandedIn:
    """Parts from the calling program, used instead of those that the settings name."""

    method: type[Method] | None = None
    detector: ChangeDetector | None = None
    features: FeatureExtractor | None = None
    memory: type[Memory] | None = None
    sampler: ReplaySampler | None = None


def method_class(config: RunConfig) -> type[Method]:
    """The class of the run's method; joint and independent training are sequential on a stream."""
    return find_method("sequential" if config.method in STREAMS else config.method)


def plugin_classes(config: RunConfig, given: HandedIn | None = None) -> list[Any]:
    """The classes of a run that may have options, as the settings name them."""
    given = given or HandedIn()
    method = given.method or method_class(config)
    kinds: list[Any] = [method, find_learner(config.learner)]
    if config.backbone is not None:
        kinds.append(find_backbone(config.backbone))
    if method.detects and not config.oracle:
        if given.detector is None:
            kinds.append(registry.subclass("detectors", config.detection.mode, ChangeDetector))
        if given.features is None and config.detection.features != "auto":
            named = config.detection.features
            kinds.append(registry.subclass("features", named, FeatureExtractor))
    if issubclass(method, ReplayingMethod):
        memory = given.memory or find_memory(config.memory)
        kinds += [] if memory is None else [memory]
        if given.sampler is None and config.replay.sampler is not None:
            kinds.append(registry.subclass("samplers", config.replay.sampler, ReplaySampler))
    return kinds


def whole_options(config: RunConfig, kinds: list[type]) -> dict[str, Any]:
    """The options of these classes with their defaults, as config.toml holds them."""
    options: dict[str, Any] = {}
    for kind in kinds:
        own = registry.own_options(kind, config.options)
        options |= {} if own is None else plain(asdict(own))
    return options


def refuse_idle_detection(kind: type[Method], method: str, config: DetectionConfig) -> None:
    """Raise for a custom detector or features in a method that detects no changes."""
    custom: Mapping[str, bool] = {
        "--detector": config.mode not in registry.built_in("detectors"),
        "--features": config.features not in ("auto", *registry.built_in("features")),
    }
    for option, named in custom.items():
        if named and not kind.detects:
            raise UsageError(
                f"{method} detects no changes, so {option} would do nothing: leave it out"
            )
