"""From a method's name and settings to the method."""

from __future__ import annotations

from typing import get_args

import torch

from metadrift.detection import ChangeDetector
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import UsageError
from metadrift.learners import MetaLearner
from metadrift.memory import (
    Buffer,
    GSSMemory,
    LossAwareMemory,
    M2D3Memory,
    ReservoirMemory,
)
from metadrift.methods.agem import AGEM
from metadrift.methods.base import Method
from metadrift.methods.config import (
    BaselineConfig,
    Fresh,
    MemoryConfig,
    MethodName,
    ReplayConfig,
    TransformConfig,
    refuse_idle_options,
)
from metadrift.methods.gss import GSS
from metadrift.methods.loss_aware import LossAware
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.methods.mer import MER
from metadrift.methods.mir import MIR
from metadrift.methods.reservoir import Reservoir
from metadrift.methods.sequential import Sequential
from metadrift.randomness import Purpose, generator
from metadrift.replay import PETS, FreshTasks, ReplaySampler, Shift, Turn, UniformReplay


def make_method(
    name: MethodName,
    learner: MetaLearner,
    optimizer: torch.optim.Optimizer,
    *,
    seed: int,
    buffer: Buffer | None = None,
    memory: MemoryConfig | None = None,
    replay: ReplayConfig | None = None,
    baseline: BaselineConfig | None = None,
    fresh: Fresh = "all",
    transform: TransformConfig | None = None,
    features: FeatureExtractor | None = None,
    detector: ChangeDetector | None = None,
) -> Method:
    """A method by name, trained on fresh tasks unless `fresh` is off.

    `buffer` is needed by all but sequential; `features` and `detector` by m2d3-pets and by
    balanced-oracle, whose detector knows the truth.
    """
    memory, replay = memory or MemoryConfig(), replay or ReplayConfig()
    baseline, transform = baseline or BaselineConfig(), transform or TransformConfig()
    refuse_idle_options(name, replay, fresh, transform)
    method: Method
    if name == "sequential":
        method = Sequential(learner, optimizer)
    elif name in ("m2d3-pets", "balanced-oracle"):
        if buffer is None or features is None or detector is None:
            raise UsageError(f"{name} needs a Buffer, features and a detector")
        parts = (features, detector)
        method = _detecting(name, learner, optimizer, seed, buffer, memory, replay, parts)
    else:
        if buffer is None:
            raise UsageError(f"{name} keeps a memory: hand in a Buffer")
        method = _baseline(name, learner, optimizer, seed, buffer, replay, baseline)
    changes = [c for c in (Turn(transform.turn), Shift(transform.shift)) if c.share]
    method.fresh_tasks = FreshTasks(fresh, changes, seed)
    return method


def _detecting(
    name: MethodName,
    learner: MetaLearner,
    optimizer: torch.optim.Optimizer,
    seed: int,
    buffer: Buffer,
    memory: MemoryConfig,
    replay: ReplayConfig,
    parts: tuple[FeatureExtractor, ChangeDetector],
) -> Method:
    keep, draw = generator(seed, Purpose.MEMORY), generator(seed, Purpose.REPLAY)
    sampler: ReplaySampler = UniformReplay()
    if name == "balanced-oracle":
        kept = M2D3Memory(buffer, keep, beta=0.0, kappa=1.0)
    else:
        kept = M2D3Memory(buffer, keep, mode=memory.mode, beta=memory.beta, kappa=memory.kappa)
        if replay.sampler == "pets":
            every, batches = replay.refresh_every, replay.refresh_batches
            sampler = PETS(weighted=replay.weighted, every=every, batches=batches)
    return M2D3PETS(learner, optimizer, kept, replay, draw, sampler, *parts)


def _baseline(
    name: MethodName,
    learner: MetaLearner,
    optimizer: torch.optim.Optimizer,
    seed: int,
    buffer: Buffer,
    replay: ReplayConfig,
    baseline: BaselineConfig,
) -> Method:
    keep, draw = generator(seed, Purpose.MEMORY), generator(seed, Purpose.REPLAY)
    if name == "gss":
        kept = GSSMemory(buffer, keep, gate=baseline.gss_gate, compared=baseline.gss_compare)
        return GSS(learner, optimizer, kept, replay, draw)
    if name == "loss-aware":
        return LossAware(learner, optimizer, LossAwareMemory(buffer, keep), replay, draw)
    common = (learner, optimizer, ReservoirMemory(buffer, keep), replay, draw)
    if name == "reservoir":
        return Reservoir(*common)
    if name == "agem":
        return AGEM(*common, baseline.agem_project)
    if name == "mir":
        return MIR(*common, baseline.mir_candidates)
    if name == "mer":
        return MER(*common, baseline.mer_alpha, baseline.mer_beta)
    raise UsageError(f"there is no method {name!r}; there are {', '.join(get_args(MethodName))}")
