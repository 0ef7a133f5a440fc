"""A user's file with a part of every kind, none of which metadrift knows."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from metadrift.detection import Change, ChangeDetector
from metadrift.detection.features import FeatureExtractor
from metadrift.learners import MetaLearner, class_means
from metadrift.memory import Memory, ReservoirMemory
from metadrift.methods import Method, ReplayingMethod
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
    """Draws uniformly."""

    @dataclass(frozen=True)
    class Options:
        times: int = 1
        """How often each batch is drawn."""

    def __init__(self, options):
        self.times = options.times

    def choose(self, memory, n, rng):
        slots, weights = super().choose(memory, n, rng)
        return slots * self.times, weights * self.times


class Every(ChangeDetector):
    """Reports a change every so many steps."""

    @dataclass(frozen=True)
    class Options:
        period: int = 10
        """Steps between two reports."""

    def __init__(self, config, options):
        super().__init__()
        self.period = options.period

    def _take(self, vector):
        now, self.step = self.step, self.step + 1
        self.statistic, self.threshold = float(vector[0]), 1.0
        return Change(now, now, 0.0, 1.0) if now % self.period == self.period - 1 else None


class Brightness(FeatureExtractor):
    """How bright the support images are."""

    @dataclass(frozen=True)
    class Options:
        power: float = 1.0
        """What brightness is raised to."""

    def __init__(self, config, options):
        self.power = options.power

    def __call__(self, tasks, embedding=None):
        return (tasks.support.double().mean()[None] / 255).pow(self.power).numpy()


class NoMethod:
    pass


class Halved(torch.optim.SGD):
    """Half the rate that it is given."""

    def __init__(self, params, lr, momentum=0.0):
        super().__init__(params, lr=lr / 2, momentum=momentum)


NUMBER = 3


class Half(Method):
    """Has no step."""


class Greedy(ReplayingMethod):
    """Asks for what nobody gives."""

    def __init__(self, learner, more):
        pass

    def step(self, tasks):
        pass


class Loose(ReplayingMethod):
    """Its options are no dataclass."""

    class Options:
        times = 2

    def step(self, tasks):
        pass


class Bare(MetaLearner):
    """Has no rule."""


class Short(Cosine):
    """Takes too little."""

    Options = None

    def __init__(self, backbone):
        super().__init__(backbone, 12, "batch")


def wants(example, depth, filters=None):
    return nn.Flatten()


class Wants(UniformReplay):
    """Asks for what nobody gives."""

    def __init__(self, share):
        self.share = share


class NoAdmit(Memory):
    """Does not say what it keeps."""


class Raises(ReplayingMethod):
    """Fails while it runs."""

    def step(self, tasks):
        raise ValueError("too long")


class Silent(ReplayingMethod):
    """Returns nothing."""

    def step(self, tasks):
        self.learn(tasks, self.draw())
