"""The settings that a run depends on, with every default replaced by its value."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from metadrift import registry
from metadrift.errors import MetadriftError
from metadrift.examples import ExampleKind
from metadrift.learners import MetaLearner, find_learner
from metadrift.learners.networks import usual_backbone, usual_width
from metadrift.runs.config import RunConfig
from metadrift.runs.plugins import plugin_classes, whole_options
from metadrift.streams import Benchmark

CONFIG, BENCHMARK = "config.toml", "benchmark.toml"
"""The two files of a run's folder that determine its numbers."""

FREE = ("device", "threads", "keep", "checkpoint_every", "log_every", "csv", "tensorboard")
"""Settings in a run's config.toml that may change between resumes without changing its result."""

_ELSEWHERE = ("benchmark", "scale", "data")  # the benchmark's own entries hold their effect


def resolved(
    config: RunConfig,
    benchmark: Benchmark,
    learner: MetaLearner | None = None,
    example: ExampleKind | None = None,
) -> RunConfig:
    """The same run with every default replaced by its value, as its folder holds it.

    Parameters
    ----------
    config
        The settings as the user gave them.
    benchmark
        The benchmark at the run's scale. The run's folder holds it at this scale, so `scale`
        becomes 1 and all sizes are final.
    learner
        The learner of these settings; without it what only a made learner or the code of a plug-in
        knows stays open.
    example
        What the examples are, where there is no learner that says it.
    """
    learn = config.learn
    if learn.inner_lr is None:
        learn = replace(learn, inner_lr=getattr(learner, "inner_lr", None))
    detection = config.detection.scaled(config.scale)
    example = learner.example if learner is not None else example
    backbone, filters = config.backbone, learn.filters
    if learner is not None or registry.is_known("learners", config.learner):
        kind = find_learner(config.learner)
        if backbone is None and example is not None:
            backbone = usual_backbone(kind, example)
        filters = filters or (usual_width(backbone, kind) if backbone else None)
    return replace(
        config,
        method=registry.whole(config.method),
        learner=registry.whole(config.learner),
        backbone=backbone and registry.whole(backbone),
        benchmark=BENCHMARK,
        scale=1.0,
        ways_in_training=config.ways_in_training or config.ways,
        tasks_per_step=benchmark.tasks_per_step,
        data=None,
        threads=config.threads or torch.get_num_threads(),
        learn=replace(learn, filters=filters or None),
        optim=replace(config.optim, name=registry.whole(config.optim.name)),
        memory=replace(
            config.memory,
            capacity=config.memory.capacity or benchmark.memory,
            rule=config.memory.rule and registry.whole(config.memory.rule),
        ),
        transform=config.transform.only_for(example) if example else config.transform,
        replay=replace(
            config.replay,
            sampler=config.replay.sampler and registry.whole(config.replay.sampler),
        ),
        detection=replace(
            detection,
            mode=registry.whole(detection.mode),
            features=registry.whole(detection.features),
        ),
        options=config.options
        if learner is None
        else whole_options(config, plugin_classes(config)),
    )


def depends_on(config: RunConfig, benchmark: Benchmark) -> dict[str, Any]:
    """Every setting that the run's numbers depend on, by its name in config.toml.

    The benchmark appears by its content, not by its path.
    """
    settings: dict[str, Any] = {"benchmark": benchmark.name, "scale": benchmark.scale}
    for name, value in dataclasses.asdict(config).items():
        if isinstance(value, dict):
            settings |= {f"{name}.{key}": _as_json(entry) for key, entry in value.items()}
        elif name not in (*FREE, *_ELSEWHERE):
            settings[name] = value
    settings["segments"] = ", ".join(map(str, benchmark.segments))
    settings["tasks_per_step"] = benchmark.tasks_per_step
    for domain, pack in benchmark.pinned.items():
        settings[f"pack {domain}"] = pack.sha256
        settings[f"classes of pack {domain}"] = pack.classes
    return settings


def fingerprint(settings: Mapping[str, Any]) -> str:
    """One sha256 of all settings, the same for the same settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def refuse_difference(
    where: str, before: Mapping[str, Any], now: Mapping[str, Any], way_out: str
) -> None:
    """Raise if a setting has changed, with its name and both values."""
    for name in [*now, *(name for name in before if name not in now)]:
        if before.get(name) != now.get(name):
            raise OtherSettingsError(
                f"{where} was begun with {name} = {_said(before.get(name))}, and now it is "
                f"{_said(now.get(name))}; {way_out}"
            )


class OtherSettingsError(MetadriftError):
    """A folder's content was made with other settings."""


def _as_json(value: Any) -> Any:
    """The value as a checkpoint or a summary gives it back."""
    return list(value) if isinstance(value, tuple) else value


def _said(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
