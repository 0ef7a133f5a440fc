"""From a method's name and settings to the method."""

from __future__ import annotations

from dataclasses import replace
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
from metadrift.methods.config import BaselineConfig, MemoryConfig, MethodName, ReplayConfig
from metadrift.methods.gss import GSS
from metadrift.methods.loss_aware import LossAware
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.methods.mer import MER
from metadrift.methods.mir import MIR
from metadrift.methods.reservoir import Reservoir
from metadrift.methods.sequential import Sequential
from metadrift.randomness import Purpose, generator
from metadrift.replay import PETS, ReplaySampler, UniformReplay

# 3 of 28 pixels, and all four directions equally often: the helps that replay was found to get most
# from (docs/replay.md).
_AUGMENT, _TURN = 0.107, 0.75
# Separate generators for separate purposes, all from the one seed.


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
    features: FeatureExtractor | None = None,
    detector: ChangeDetector | None = None,
) -> Method:
    """A method by name.

    `buffer` is needed by all but sequential; `features` and `detector` by m2d3-pets and by
    balanced-oracle, whose detector knows the truth.
    """
    if name == "sequential":
        return Sequential(learner, optimizer)
    if buffer is None:
        raise UsageError(f"{name} keeps a memory: hand in a Buffer")
    memory, replay = memory or MemoryConfig(), replay or ReplayConfig()
    baseline = baseline or BaselineConfig()
    ours = name == "m2d3-pets"
    if replay.augment is None:
        replay = replace(replay, augment=_AUGMENT if ours else 0.0)
    if replay.turn is None:
        replay = replace(replay, turn=_TURN if ours and not replay.dark else 0.0)
    if replay.turn and replay.dark:
        raise UsageError(
            "dark replay holds the learner to tasks as they were stored, and turned classes were "
            "not: set --replay.turn or --replay.dark to 0"
        )
    if name in ("agem", "mer") and (replay.balance or replay.dark):
        raise UsageError(
            f"{name} has no replay term in its objective, so --replay.balance and --replay.dark "
            "would do nothing: leave them out"
        )
    keep = generator(seed, Purpose.MEMORY)
    draw = generator(seed, Purpose.REPLAY)
    reservoir = ReservoirMemory(buffer, keep)
    if name == "reservoir":
        return Reservoir(learner, optimizer, reservoir, replay, draw)
    if name == "agem":
        return AGEM(learner, optimizer, reservoir, replay, draw, baseline.agem_project)
    if name == "mir":
        return MIR(learner, optimizer, reservoir, replay, draw, baseline.mir_candidates)
    if name == "mer":
        rates = baseline.mer_alpha, baseline.mer_beta
        return MER(learner, optimizer, reservoir, replay, draw, *rates)
    if name == "gss":
        kept = GSSMemory(buffer, keep, gate=baseline.gss_gate, compared=baseline.gss_compare)
        return GSS(learner, optimizer, kept, replay, draw)
    if name == "loss-aware":
        return LossAware(learner, optimizer, LossAwareMemory(buffer, keep), replay, draw)
    if name not in get_args(MethodName):
        raise UsageError(
            f"there is no method {name!r}; there are {', '.join(get_args(MethodName))}"
        )
    if features is None or detector is None:
        raise UsageError(f"{name} needs features and a detector")
    parts = (features, detector)
    if name == "balanced-oracle":
        balanced = M2D3Memory(buffer, keep, beta=0.0, kappa=1.0)
        return M2D3PETS(learner, optimizer, balanced, replay, draw, UniformReplay(), *parts)
    managed = M2D3Memory(buffer, keep, mode=memory.mode, beta=memory.beta, kappa=memory.kappa)
    sampler: ReplaySampler = UniformReplay()
    if replay.sampler == "pets":
        every, batches = replay.refresh_every, replay.refresh_batches
        sampler = PETS(weighted=replay.weighted, every=every, batches=batches)
    return M2D3PETS(learner, optimizer, managed, replay, draw, sampler, *parts)
