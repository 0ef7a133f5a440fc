"""The method of a live stream, from the settings of a run."""

from __future__ import annotations

import torch

from metadrift.data.images import ImageFormat
from metadrift.learners import MetaLearner
from metadrift.memory import Buffer
from metadrift.methods.base import Method
from metadrift.runs.build import build_method
from metadrift.runs.config import RunConfig
from metadrift.tasks import TaskGeometry


def live_method(
    config: RunConfig,
    learner: MetaLearner,
    optimizer: torch.optim.Optimizer,
    tasks_per_step: int,
    geometry: TaskGeometry,
    look: ImageFormat,
) -> Method:
    """As in a run, with any optimiser and no stream behind it."""
    buffer = None
    if config.method != "sequential":
        assert config.memory.capacity is not None
        buffer = Buffer(
            config.memory.capacity,
            tasks_per_step,
            geometry,
            look.channels,
            look.size,
            logits=config.replay.dark > 0,
        )
    return build_method(config, learner, buffer, look.channels, optimizer=optimizer)
