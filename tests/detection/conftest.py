"""Streams of vectors with known changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

Stream = Callable[..., NDArray[np.float64]]


@pytest.fixture
def stream() -> Stream:
    """stream(seed, (steps, mean), ...): normal vectors of length 6 in segments."""

    def make(seed: int, *segments: tuple[int, float]) -> NDArray[np.float64]:
        rng = np.random.default_rng(seed)
        return np.concatenate([rng.normal(mean, 1.0, (steps, 6)) for steps, mean in segments])

    return make
