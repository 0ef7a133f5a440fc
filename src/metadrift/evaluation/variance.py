"""The variance of the replay gradient, measured with exact gradients: PETS against uniform."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from metadrift.learners.importance import task_gradients
from metadrift.memory import Memory
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import PETS


@dataclass(frozen=True)
class ReplayVariance:
    """Trace of the covariance of one replayed batch's gradient, by uniform draw and by PETS.

    `least` is a lower bound for unbiased draws by cluster: the trace of PETS if it knew every
    cluster's gradient norm exactly and drew nothing uniformly. `error` is the distance of the
    expected PETS gradient from the memory's mean gradient, as a share of that mean's length. It is
    0 for weighted draws, and a bias otherwise.
    """

    uniform: float
    pets: float
    least: float
    error: float

    @property
    def ratio(self) -> float:
        return self.pets / self.uniform if self.uniform > 0 else 1.0


def replay_variance(
    method: ReplayingMethod, rng: np.random.Generator, most: int = 60
) -> ReplayVariance | None:
    """Measure at the current weights, on batches transformed as for replay. Changes nothing.

    From a larger memory it takes `most` batches, one cluster after the other in turn. None if the
    memory is empty or the sampler is not PETS.
    """
    memory, sampler = method.memory, method.sampler
    if not len(memory) or not isinstance(sampler, PETS):
        return None
    slots = _sample(memory, most, rng)
    fresh = method.fresh_tasks
    rngs = [rng] * memory.buffer.tasks
    forms = (fresh.replayed_by(memory.buffer.get([slot]), rngs) for slot in slots)
    gradients = torch.stack(
        [task_gradients(method.learner, tasks.to(method.device)).mean(0) for tasks in forms]
    ).double()
    probability = sampler.probabilities(memory)
    labels = memory.label[slots].tolist()
    # A sampled batch represents n_i / (sampled of i) batches of its cluster.
    share = np.array([len(memory.slots_of(i)) / labels.count(i) for i in labels]) / len(memory)
    q = np.array([probability[i] / labels.count(i) for i in labels])
    weight = share / q if sampler.weighted else np.ones_like(q)
    squared = gradients.square().sum(1).cpu().numpy()
    mean = torch.from_numpy(share).to(method.device) @ gradients
    expected = torch.from_numpy(q * weight).to(method.device) @ gradients
    length = float(mean.norm())
    norm = {i: math.sqrt(np.mean(squared[np.equal(labels, i)])) for i in set(labels)}
    return ReplayVariance(
        uniform=float(share @ squared) - length**2,
        pets=float((q * weight**2) @ squared) - float(expected.square().sum()),
        least=float(share @ [norm[i] for i in labels]) ** 2 - length**2,
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
