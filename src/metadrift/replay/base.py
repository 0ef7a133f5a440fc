"""What is drawn from memory to be learned again, and with what weight."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metadrift.memory import Memory
from metadrift.tasks import TaskBatch


@dataclass(frozen=True)
class Replay:
    """One stored batch, drawn.

    Parameters
    ----------
    tasks
        The T stored tasks, in the form in which they are trained on.
    weight
        What their loss is multiplied by, so that the expected gradient is the memory's mean.
    slot
        Where they lie in memory.
    """

    tasks: TaskBatch
    weight: float
    slot: int


class ReplaySampler(ABC):
    """Chooses what is replayed. A sampler writes one method, `choose`.

    One that adapts also writes `observe`, asks for measurements with `stale`, and saves what it
    learned with `state_dict`.
    """

    @abstractmethod
    def choose(
        self, memory: Memory, n: int, rng: np.random.Generator
    ) -> tuple[list[int], list[float]]:
        """n slots and their weights; none when the memory is empty."""

    def draw(self, memory: Memory, n: int, rng: np.random.Generator) -> list[Replay]:
        """n stored batches; none when the memory is empty."""
        return gather(memory, *self.choose(memory, n, rng))

    def observe(self, label: int, importance: float) -> None:  # noqa: B027
        """A stored batch of this cluster was measured: how hard it is now."""

    def stale(self, memory: Memory, rng: np.random.Generator) -> list[int]:
        """Slots that the sampler wants measured before it draws; by default none."""
        return []

    def numbers(self) -> dict[str, float]:
        """What the sampler reports about its last draw, for metrics.jsonl."""
        return {}

    def probabilities(self, memory: Memory) -> dict[int, float]:
        """label -> the probability that the next draw is of this cluster: by size if uniform."""
        return {label: stored / len(memory) for label, stored in memory.counts().items()}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Go on where `state_dict` was called."""


def gather(memory: Memory, slots: Sequence[int], weights: Sequence[float]) -> list[Replay]:
    """The batches of these slots, copied out of memory in one go."""
    if not slots:
        return []
    block, T = memory.buffer.get(slots), memory.buffer.tasks
    return [
        Replay(block[i * T : (i + 1) * T], weight, slot)
        for i, (slot, weight) in enumerate(zip(slots, weights, strict=True))
    ]
