"""Random generators from a seed and a purpose, so that no two uses share numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, unique
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


@unique
class Purpose(IntEnum):
    """The use of random numbers. A new use gets a new number; numbers are never reused."""

    STREAM = 1  # key: step
    JOINT_ORDER = 2  # key: round of the domains
    WEIGHTS = 3
    MEMORY = 4
    REPLAY = 5
    TRANSFORM = 6
    EVALUATION = 7  # key: domain, geometry, block of tasks
    VARIANCE = 8  # key: step
    RESHARDING = 9  # key: step
    PROCESS = 10  # key: rank
    PERMUTATIONS = 11
    DETECTOR_PROJECTION = 12
    FOURIER = 13
    FROZEN_FILTERS = 14
    NETWORK_PROJECTION = 15
    PREVIEW = 18
    DIFFICULTY = 19
    RETURNS = 20
    REHEARSAL = 21  # key: latent domain, and of a transform also step and place


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """The generator of a seed for one purpose, and for one key within the purpose.

    Examples
    --------
    >>> first = generator(0, Purpose.STREAM, 7)
    >>> again, other = generator(0, Purpose.STREAM, 7), generator(0, Purpose.MEMORY, 7)
    >>> first.integers(1000, size=4).tolist() == again.integers(1000, size=4).tolist()
    True
    >>> int(again.integers(2**63)) == int(other.integers(2**63))
    False
    """
    return np.random.default_rng(_sequence(seed, purpose, key))


def torch_generator(seed: int, purpose: Purpose, *key: int) -> torch.Generator:
    """The same for torch."""
    import torch

    number = int(_sequence(seed, purpose, key).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(number)


@contextmanager
def global_torch_seed(generator: torch.Generator) -> Iterator[None]:
    """Let torch's global generator follow from this one, for code that knows no other.

    Afterwards the global generator is as it was.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        yield


def _sequence(seed: int, purpose: Purpose, key: tuple[int, ...]) -> np.random.SeedSequence:
    # numpy keeps a spawn key apart from the seed, so (1, key 2) and (seed 1 then 2) differ.
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), *key))
