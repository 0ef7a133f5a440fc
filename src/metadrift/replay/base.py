"""The base class of replay samplers, and a drawn batch with its weight."""

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
    """One stored batch that was drawn.

    Parameters
    ----------
    tasks
        The T stored tasks, as they are trained on.
    weight
        The factor of their loss, such that the expected gradient is the memory's mean gradient.
    slot
        Their slot in memory.
    """

    tasks: TaskBatch
    weight: float
    slot: int


class ReplaySampler(ABC):
    """Chooses the batches to replay. A sampler implements one method, `choose`.

    An adaptive sampler also implements `observe`, asks for measurements with `stale`, and saves
    its state with `state_dict`.
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
        """Receive the importance of a stored batch of this cluster."""

    def stale(self, memory: Memory, rng: np.random.Generator) -> list[int]:
        """Slots that the sampler wants measured before it draws; by default none."""
        return []

    def numbers(self) -> dict[str, float]:
        """Numbers about the last draw, for metrics.jsonl."""
        return {}

    def probabilities(self, memory: Memory) -> dict[int, float]:
        """label -> the probability of this cluster at the next draw; by size if uniform."""
        return {label: stored / len(memory) for label, stored in memory.counts().items()}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restore the state that `state_dict` returned."""


def gather(memory: Memory, slots: Sequence[int], weights: Sequence[float]) -> list[Replay]:
    """The batches of these slots, copied out of memory in one go."""
    if not slots:
        return []
    block, T = memory.buffer.get(slots), memory.buffer.tasks
    return [
        Replay(block[i * T : (i + 1) * T], weight, slot)
        for i, (slot, weight) in enumerate(zip(slots, weights, strict=True))
    ]
