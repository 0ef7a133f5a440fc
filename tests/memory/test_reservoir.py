from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import chi2


def test_the_batch_of_step_t_takes_a_place_drawn_from_0_to_t(tiny: Any) -> None:
    memory = tiny.memory("reservoir", 3, seed=5)
    slots = [tiny.offer(memory) for _ in range(12)]
    same = np.random.default_rng(5)
    places = [int(same.integers(t + 1)) for t in range(3, 12)]
    assert slots == [0, 1, 2] + [p if p < 3 else None for p in places]
    assert None in slots
    assert len({s for s in slots[3:] if s is not None}) > 1


def test_every_batch_is_equally_likely_to_be_stored(tiny: Any) -> None:
    runs, N, n = 800, 24, 6
    stored = np.zeros(N)
    for seed in range(runs):
        memory = tiny.memory("reservoir", n, seed)
        for _ in range(N):
            tiny.offer(memory)
        stored[memory.step] += 1
    p = n / N
    # Counts of the N batches sum to runs*n: N-1 degrees, variance runs*p*(1-p) each, up to N/(N-1).
    statistic = ((stored - runs * p) ** 2).sum() / (runs * p * (1 - p)) * (N - 1) / N
    assert chi2.sf(statistic, N - 1) > 0.001
