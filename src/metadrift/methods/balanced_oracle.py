"""The balanced oracle: an upper bound for a memory by domain. It uses ground-truth domains."""

from __future__ import annotations

from metadrift.memory import M2D3Memory, Memory
from metadrift.methods.config import ReplayConfig
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.methods.parts import MethodParts
from metadrift.randomness import Purpose
from metadrift.replay import ReplaySampler, UniformReplay


class BalancedOracle(M2D3PETS):
    """Every true domain has the same share of memory; replay is uniform."""

    chooses_memory = False

    @classmethod
    def make_memory(cls, parts: MethodParts) -> Memory:
        return M2D3Memory(parts.room(), parts.rng(Purpose.MEMORY), beta=0.0, kappa=1.0)

    @classmethod
    def make_sampler(cls, replay: ReplayConfig) -> ReplaySampler:
        return UniformReplay()
