"""The parts that a method is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from metadrift.detection import ChangeDetector, LatentDomains
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import UsageError
from metadrift.learners import MetaLearner
from metadrift.memory import Buffer, Memory
from metadrift.methods.config import BaselineConfig, MemoryConfig, ReplayConfig
from metadrift.randomness import Purpose, generator


@dataclass(frozen=True)
class MethodParts:
    """The argument of `Method.make`. A method takes the parts it needs.

    Parameters
    ----------
    learner, optimizer
        The learner on its device, and the optimiser of its parameters.
    seed
        The seed of all random numbers.
    buffer
        Storage for tasks, given to methods with a memory.
    memory, replay, baseline
        The settings of a run.
    features, detector, domains
        Given to methods that detect changes.
    options
        The method's own `Options`, if it has any.
    memory_class
        What is kept, instead of the method's own rule.
    all_options
        The options of all plug-ins, for parts that the method makes.
    """

    learner: MetaLearner
    optimizer: torch.optim.Optimizer
    seed: int
    buffer: Buffer | None = None
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    features: FeatureExtractor | None = None
    detector: ChangeDetector | None = None
    domains: LatentDomains | None = None
    options: Any = None
    memory_class: type[Memory] | None = None
    all_options: Mapping[str, Any] = field(default_factory=dict)

    def room(self) -> Buffer:
        """The buffer of a method with a memory."""
        if self.buffer is None:
            raise UsageError("a method with a memory needs a Buffer")
        return self.buffer

    def rng(self, purpose: Purpose) -> np.random.Generator:
        """A generator for one use of randomness."""
        return generator(self.seed, purpose)
