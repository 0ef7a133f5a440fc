"""The learner and the method of a live stream, from the settings of a run."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from metadrift.detection import make_detector
from metadrift.detection.features import make_features
from metadrift.domains.images import Look
from metadrift.learners import MetaLearner, make_learner
from metadrift.memory import Buffer
from metadrift.methods.base import Method
from metadrift.methods.config import MethodName
from metadrift.methods.make import make_method
from metadrift.runs.build import build_learner
from metadrift.runs.config import RunConfig
from metadrift.tasks import TaskGeometry


def live_learner(config: RunConfig, image_size: int, backbone: nn.Module | None) -> MetaLearner:
    """As in a run, or around a backbone of one's own."""
    if backbone is None:
        return build_learner(config, image_size)
    learn = config.learn
    options: dict[str, Any] = {}
    if config.learner in ("anil", "maml"):
        options = {
            "inner_steps": learn.inner_steps,
            "inner_lr": learn.inner_lr,
            "first_order": learn.first_order,
        }
    return make_learner(
        config.learner,
        image_size=image_size,
        ways=config.ways,
        generator=config.seed,
        normalisation=learn.normalisation,
        backbone=backbone,
        **options,
    )


def live_method(
    config: RunConfig,
    learner: MetaLearner,
    optimizer: torch.optim.Optimizer,
    tasks_a_step: int,
    geometry: TaskGeometry,
    look: Look,
) -> Method:
    """As in a run, with any optimiser and no stream behind it."""
    name = cast(MethodName, config.method)
    buffer = features = detector = None
    if name != "sequential":
        assert config.memory.capacity is not None
        buffer = Buffer(
            config.memory.capacity,
            tasks_a_step,
            geometry,
            look.channels,
            look.size,
            logits=config.replay.dark > 0,
        )
    if name == "m2d3-pets":
        settings = config.detection.scaled(config.scale)
        features = make_features(settings, look.channels)
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
