from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import chisquare


def test_the_largest_keys_stay(tiny: Any) -> None:
    memory = tiny.memory("loss-aware", 4, seed=3)
    weights = [1.0, 0.2, 5.0, 2.0, 0.0, 3.0, 0.1, 9.0, 1.0, 1.0, 4.0]
    for weight in weights:
        tiny.offer(memory, importance=weight)
    same = np.random.default_rng(3)
    keys = [(1 - same.random()) ** (1 / max(w, 1e-12)) for w in weights]
    expected = sorted(range(len(keys)), key=lambda i: -keys[i])[:4]
    assert sorted(memory.step.tolist()) == sorted(expected)


def test_with_one_place_a_batch_is_stored_in_proportion_to_its_weight(tiny: Any) -> None:
    weights, runs = np.array([1.0, 4.0, 2.0, 3.0]), 3000
    stored = np.zeros(4)
    for seed in range(runs):
        memory = tiny.memory("loss-aware", 1, seed)
        for weight in weights:
            tiny.offer(memory, importance=weight)
        stored[memory.step[0]] += 1
    assert chisquare(stored, runs * weights / weights.sum()).pvalue > 0.001


def test_equal_losses_make_it_a_plain_reservoir(tiny: Any) -> None:
    stored, runs = np.zeros(15), 1000
    for seed in range(runs):
        memory = tiny.memory("loss-aware", 5, seed)
        for _ in range(15):
            tiny.offer(memory, importance=2.5)
        stored[memory.step] += 1
    p = 1 / 3
    assert abs(stored / runs - p).max() < 4 * math.sqrt(p * (1 - p) / runs)
