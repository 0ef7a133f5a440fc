"""What the specialists of a rehearsal bring: m2d3-pets that trains one copy on all of its memory.

    export PYTHONPATH=benchmarks/results
    GRID=rehearsal DATA=FOLDER WITH="--plugin rehearsal:OneCopy" make measure

The copy is trained for as many steps as all specialists together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from metadrift.memory import Memory
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.methods.specialists import Specialists


class OneCopy(M2D3PETS):
    """m2d3-pets with the rehearsal of a method that has no latent domains."""

    def rehearse(
        self, steps: int, progress: Callable[[int], None] = lambda more: None
    ) -> Specialists | None:
        whole: Any = copy.copy(self)
        whole.memory = Undivided(self.memory)
        self.specialists = M2D3PETS.rehearse(whole, steps, progress)
        return self.specialists


class Undivided:
    """A memory in which all batches have one label."""

    def __init__(self, memory: Memory) -> None:
        self.buffer, self.size = memory.buffer, len(memory)

    def counts(self) -> dict[int, int]:
        return {0: self.size}

    def slots_of(self, label: int) -> range:
        return range(self.size)
