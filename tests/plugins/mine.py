"""A user's file: a method, a learner, a memory and a sampler, none of which metadrift knows."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from metadrift.learners import MetaLearner, class_means
from metadrift.memory import ReservoirMemory
from metadrift.methods import ReplayingMethod
from metadrift.replay import UniformReplay


class ReplayTwice(ReplayingMethod):
    """Learns every step several times."""

    @dataclass(frozen=True)
    class Options:
        """Settings of ReplayTwice."""

        times: int = 2
        """How often a step is learned."""

    def step(self, tasks):
        for _ in range(self.options.times):
            outcome = self.learn(self.fresh(tasks), self.draw())
        admitted = self.remember(self.arrival(tasks, outcome))
        return outcome.record(admitted=admitted, extra={"times": self.options.times})


class Cosine(MetaLearner):
    """Compares by cosine."""

    @dataclass(frozen=True)
    class Options:
        temperature: float = 10.0

    def __init__(self, backbone, image_size, normalisation, options):
        super().__init__(backbone, image_size, normalisation)
        self.temperature = nn.Parameter(torch.tensor(options.temperature))

    def logits(self, support, labels, query, ways):
        prototypes = class_means(support, labels, ways)
        cosine = F.normalize(query, dim=-1) @ F.normalize(prototypes, dim=-1).transpose(1, 2)
        return self.temperature * cosine


class Newest(ReservoirMemory):
    """Keeps every batch: a random one makes room for it."""

    def admit(self, arrival):
        if not self.full:
            return len(self)
        return int(self.rng.integers(self.capacity))


class AlsoUniform(UniformReplay):
    pass


class NoMethod:
    pass
