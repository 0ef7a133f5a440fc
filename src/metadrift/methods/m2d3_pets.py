"""The paper's method: detect the change, keep by domain and difficulty, replay by gradient norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from metadrift.detection import ChangeDetector, DetectionConfig, LatentDomains
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import UsageError
from metadrift.learners import MetaLearner, frozen_statistics
from metadrift.memory import M2D3Memory, Memory
from metadrift.methods.base import StepOutcome, StepRecord, mean_squares
from metadrift.methods.config import ReplayConfig
from metadrift.methods.parts import MethodParts
from metadrift.methods.replaying import ReplayingMethod
from metadrift.randomness import Purpose
from metadrift.replay import PETS, Replay, ReplaySampler
from metadrift.tasks import TaskBatch

_AT_ONCE = 2  # stored batches measured in one pass: no more memory than a training step takes


class M2D3PETS(ReplayingMethod):
    """Algorithm 3 of the paper, with ODCD (Algorithm 1) and M2D3 (Algorithm 2) as its parts.

    Parameters
    ----------
    memory
        An M2D3Memory.
    sampler
        PETS, or uniform for the ablation without it.
    features
        The features that the detector sees.
    detector
        The detector of domain changes.
    domains
        Which latent domain it is now; by default a new one after every change.
    """

    detects = True
    memory_rule = "m2d3"
    memory_kind = M2D3Memory

    @classmethod
    def make(cls, parts: MethodParts) -> Self:
        if parts.features is None or parts.detector is None:
            raise UsageError(f"{cls.__name__} needs features and a detector")
        return cls(
            **cls.common(parts),
            sampler=cls.make_sampler(parts.replay),
            features=parts.features,
            detector=parts.detector,
            domains=parts.domains,
        )

    @classmethod
    def make_memory(cls, parts: MethodParts) -> Memory:
        if parts.memory_class not in (None, M2D3Memory):
            return super().make_memory(parts)
        keep, settings = parts.rng(Purpose.MEMORY), parts.memory
        return M2D3Memory(
            parts.room(), keep, mode=settings.mode, beta=settings.beta, kappa=settings.kappa
        )

    @classmethod
    def make_sampler(cls, replay: ReplayConfig) -> ReplaySampler:
        """The method's own sampler, with its settings."""
        every, batches = replay.refresh_every, replay.refresh_batches
        return PETS(weighted=replay.weighted, every=every, batches=batches)

    def __init__(
        self,
        learner: MetaLearner,
        optimizer: torch.optim.Optimizer,
        memory: M2D3Memory,
        config: ReplayConfig,
        rng: np.random.Generator,
        sampler: ReplaySampler,
        features: FeatureExtractor,
        detector: ChangeDetector,
        domains: LatentDomains | None = None,
    ) -> None:
        super().__init__(learner, optimizer, memory, config, rng, sampler)
        self.memory: M2D3Memory = memory
        self.features = features
        self.detector = detector
        self.domains = domains or LatentDomains(DetectionConfig(returns="off"))

    def step(self, tasks: TaskBatch) -> StepRecord:
        self.measure_stale()  # lines 2-4: G_j, where it is older than s steps
        replays = self.draw()  # lines 5-6: B from M by Z_t
        outcome = self.learn(self.fresh(tasks), replays)  # line 7: train on T_t and B together
        if outcome.replayed is not None:  # the same pass measures the replayed tasks
            measured = measurement(replays, outcome.squares)
            self.observe(self.group.gather(measured))  # each process replays its own slots
        with self.clock("detection"):  # line 8, M2D3: first ODCD
            seen = self.features(tasks, self.embedding(tasks, outcome))
            change = self.detector.update(seen)
            moves = self.domains.update(seen, change)
        for move in moves:  # L_t = L_{t-1} + 1, or a domain that was there before
            self.memory.relabel(move.since, move.label)
        arrival = self.arrival(tasks, outcome, self.latent_domain)
        admitted = self.remember(arrival)  # then in and out of memory
        watched = {"statistic": self.detector.statistic, "threshold": self.detector.threshold}
        return outcome.record(
            latent_domain=self.latent_domain,
            change=change,
            moves=tuple(moves),
            admitted=admitted,
            extra=watched | self.sampler.numbers(),
        )

    @property
    def latent_domain(self) -> int:
        """The label of the domain that tasks arrive from now."""
        return self.domains.label

    def embedding(self, tasks: TaskBatch, outcome: StepOutcome) -> Tensor | None:
        """The learner's embedding of the tasks as they arrived, for features that need it."""
        if not self.features.uses_embedding:
            return None
        if self.fresh_tasks.fresh != "all":
            return outcome.arriving.embedding
        with torch.no_grad(), frozen_statistics(self.learner):  # trained on another form of them
            return cast(Tensor, self.learner(tasks.to(self.device)).embedding)

    def owners(self, replays: Sequence[Replay], arriving: TaskBatch | None = None) -> list[int]:
        """A number per task, the same for the tasks of one latent domain."""
        sizes = [(self.latent_domain, len(arriving or ()))]
        sizes += [(int(self.memory.label[r.slot]), len(r.tasks)) for r in replays]
        return [label for label, size in sizes for _ in range(size)]

    def measure_stale(self) -> None:
        """Measure the stored batches that the sampler asks for, a few per forward pass."""
        with self.clock("replay"):
            slots = self.sampler.stale(self.memory, self.rng)
            for start in range(0, len(slots), _AT_ONCE):
                replays = self.replays(slots[start : start + _AT_ONCE])
                with frozen_statistics(self.learner):
                    squares = mean_squares(self.outcome_of(replays), len(replays)).cpu().tolist()
                measured = measurement(replays, squares)
                self.observe(self.group.mean(measured))  # each has its part of the same slots

    def observe(self, measured: NDArray[np.float64]) -> None:
        """Pass the new importance of these stored batches to memory and sampler."""
        for slot, squares in measured.tolist():
            label = int(self.memory.label[int(slot)])
            self.memory.observe(label, math.sqrt(squares))
            self.sampler.observe(label, math.sqrt(squares))

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "detector": self.detector.state_dict(),
            "features": self.features.state_dict(),
            "domains": self.domains.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.detector.load_state_dict(state["detector"])
        self.features.load_state_dict(state["features"])
        self.domains.load_state_dict(state["domains"])


def measurement(replays: Sequence[Replay], squares: Sequence[float]) -> NDArray[np.float64]:
    """[n, 2]: the slots, and the mean squared importance of their tasks."""
    return np.array([[replay.slot for replay in replays], squares], np.float64).T
