"""Features for the detector when several processes share the tasks of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from metadrift.detection.features import FeatureExtractor, PaperFeatures
from metadrift.distributed.group import Group
from metadrift.tasks import TaskBatch


class SharedFeatures(FeatureExtractor):
    """The features of all processes' tasks, the same numbers in every process.

    All extractors but the paper's are linear in the tasks, so the mean of their vectors is the
    vector of all tasks. The paper's z is not: there the embedding is averaged first.

    Parameters
    ----------
    features
        The extractor of each process.
    group
        The processes that share the tasks.
    """

    def __init__(self, features: FeatureExtractor, group: Group) -> None:
        self.features = features
        self.uses_embedding = features.uses_embedding
        self.group = group

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        if not isinstance(self.features, PaperFeatures):
            return self.group.mean(self.features(tasks, embedding))
        if embedding is not None:
            mine = embedding.detach().to("cpu", torch.float64).flatten(1).mean(0)
            embedding = torch.from_numpy(self.group.mean(mine.numpy()))[None]
        return self.features(tasks, embedding)

    def state_dict(self) -> dict[str, Any]:
        return self.features.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.features.load_state_dict(state)
