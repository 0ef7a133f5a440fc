"""Tiny tasks that carry a number, and every memory policy over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch

from metadrift.examples import Pictures
from metadrift.memory import (
    Arrival,
    Buffer,
    GSSMemory,
    LossAwareMemory,
    M2D3Memory,
    Memory,
    ReservoirMemory,
)
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=2, shots=1, queries=1)


class Tiny:
    """A memory of 1 x 4 images of 8 x 8 pixels, and offers that are known by their step."""

    policies: ClassVar[dict[str, Callable[[Buffer, np.random.Generator], Memory]]] = {
        "reservoir": ReservoirMemory,
        "m2d3": M2D3Memory,
        "m2d3-balanced": lambda b, r: M2D3Memory(b, r, beta=0),
        "m2d3-learned": lambda b, r: M2D3Memory(b, r, mode="learned"),
        "m2d3-paper": lambda b, r: M2D3Memory(b, r, mode="paper"),
        "loss-aware": LossAwareMemory,
        "gss": GSSMemory,
        "gss-ungated": lambda b, r: GSSMemory(b, r, gate="none"),
        "gss-original": lambda b, r: GSSMemory(b, r, gate="original"),
    }

    @staticmethod
    def buffer(capacity: int) -> Buffer:
        return Buffer(capacity, 1, GEOMETRY, Pictures(8, 1))

    def memory(self, policy: str, capacity: int, seed: int = 0) -> Memory:
        return self.policies[policy](self.buffer(capacity), np.random.default_rng(seed))

    @staticmethod
    def batch(number: int) -> TaskBatch:
        images = np.zeros((1, 4, 1, 8, 8), np.uint8)
        images[..., 0, :4] = np.frombuffer(number.to_bytes(4, "little"), np.uint8)
        return TaskBatch(torch.from_numpy(images), GEOMETRY)

    @staticmethod
    def numbers(memory: Memory) -> list[int]:
        """What each filled slot really holds."""
        if len(memory) == 0:
            return []
        images = memory.buffer.get(range(len(memory))).images.numpy().astype(np.int64)
        return (images[:, 0, 0, 0, :4] << np.arange(0, 32, 8)).sum(1).tolist()

    def offer(self, memory: Memory, label: int = 0, importance: float = 1.0) -> int | None:
        """Offer the batch that carries the number of the step."""
        number = memory.steps
        similarity = float(np.random.default_rng(number).uniform(-1, 1))
        return memory.offer(Arrival(self.batch(number), label, importance, similarity=similarity))


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return Tiny()


@pytest.fixture(params=list(Tiny.policies), scope="session")
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)
