"""The variance of the replay gradient, measured with exact gradients: PETS against uniform."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from metadrift.learners import MetaLearner
from metadrift.learners.importance import task_gradients
from metadrift.memory import Memory
from metadrift.replay import PETS


@dataclass(frozen=True)
class ReplayVariance:
    """Trace of the covariance of one replayed batch's gradient, by uniform draw and by PETS.

    `error` is the distance of the expected PETS gradient from the memory's mean gradient, as a
    share of that mean's length: 0 when the draws are weighted, a bias when they are not.
    """

    uniform: float
    pets: float
    error: float

    @property
    def ratio(self) -> float:
        return self.pets / self.uniform if self.uniform > 0 else 1.0


def replay_variance(
    learner: MetaLearner, memory: Memory, sampler: PETS, rng: np.random.Generator, most: int = 60
) -> ReplayVariance:
    """Measure at the learner's present weights; nothing is changed.

    Of a memory with more than `most` batches as many are taken, the clusters by turns.
    """
    slots = _sample(memory, most, rng)
    device = next(learner.parameters()).device
    gradients = torch.stack(
        [task_gradients(learner, memory.buffer.get([slot]).to(device)).mean(0) for slot in slots]
    ).double()
    probability = sampler.probabilities(memory)
    labels = memory.label[slots].tolist()
    # A batch stands for n_i / (sampled of i) batches of its cluster.
    share = np.array([len(memory.slots_of(i)) / labels.count(i) for i in labels]) / len(memory)
    q = np.array([probability[i] / labels.count(i) for i in labels])
    weight = share / q if sampler.weighted else np.ones_like(q)
    squared = gradients.square().sum(1).cpu().numpy()
    mean = torch.from_numpy(share).to(device) @ gradients
    expected = torch.from_numpy(q * weight).to(device) @ gradients
    length = float(mean.norm())
    return ReplayVariance(
        uniform=float(share @ squared) - length**2,
        pets=float((q * weight**2) @ squared) - float(expected.square().sum()),
        error=float((expected - mean).norm()) / max(length, 1e-30),
    )


def _sample(memory: Memory, most: int, rng: np.random.Generator) -> list[int]:
    clusters = [rng.permutation(list(memory.slots_of(i))).tolist() for i in memory.counts()]
    chosen: list[int] = []
    while len(chosen) < most and any(clusters):
        for cluster in clusters:
            if cluster and len(chosen) < most:
                chosen.append(cluster.pop())
    return chosen
