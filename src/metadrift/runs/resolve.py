"""What a run depends on, with every default replaced by the value that is used."""

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
from metadrift.learners import MetaLearner, find_learner
from metadrift.runs.config import RunConfig
from metadrift.streams import Benchmark

CONFIG, BENCHMARK = "config.toml", "benchmark.toml"
"""The two files of a run's folder that its numbers follow from."""

FREE = ("device", "threads", "keep", "checkpoint_every", "log_every", "csv", "tensorboard")
"""What may be changed in a run's config.toml between two resumes; its result stays the same."""

_ELSEWHERE = ("benchmark", "scale", "data")  # what they lead to is in the benchmark's own entries


def resolved(
    config: RunConfig, benchmark: Benchmark, learner: MetaLearner | None = None
) -> RunConfig:
    """The same run with nothing left to a default, as its folder holds it.

    Parameters
    ----------
    config
        The settings as they were asked for.
    benchmark
        The one to run, at the run's scale. It is read from the run's own file after this, so the
        scale becomes 1 and what depends on the scale is said as it is.
    learner
        The learner of these settings; without it what only a made learner knows stays open.
    """
    learn = config.learn
    if learn.inner_lr is None:
        learn = replace(learn, inner_lr=getattr(learner, "inner_lr", None))
    filters = learn.filters or find_learner(config.learner).usual_filters
    return replace(
        config,
        method=registry.whole(config.method),
        learner=registry.whole(config.learner),
        benchmark=BENCHMARK,
        scale=1.0,
        ways_in_training=config.ways_in_training or config.ways,
        data=None,
        threads=config.threads or torch.get_num_threads(),
        learn=replace(learn, filters=filters),
        memory=replace(
            config.memory,
            capacity=config.memory.capacity or benchmark.memory,
            rule=config.memory.rule and registry.whole(config.memory.rule),
        ),
        replay=replace(config.replay, sampler=registry.whole(config.replay.sampler)),
        detection=config.detection.scaled(config.scale),
    )


def depends_on(config: RunConfig, benchmark: Benchmark) -> dict[str, Any]:
    """Every setting that the run's numbers follow from, by the name it has in config.toml.

    The benchmark's entries are its content, not its place.
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
    """Raise with the first setting that is not what it was, and both its values."""
    for name in [*now, *(name for name in before if name not in now)]:
        if before.get(name) != now.get(name):
            raise OtherSettingsError(
                f"{where} was begun with {name} = {_said(before.get(name))}, and now it is "
                f"{_said(now.get(name))}; {way_out}"
            )


class OtherSettingsError(MetadriftError):
    """What is in a folder was made with other settings than are asked for."""


def _as_json(value: Any) -> Any:
    """As it is read back from a checkpoint or a summary."""
    return list(value) if isinstance(value, tuple) else value


def _said(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
