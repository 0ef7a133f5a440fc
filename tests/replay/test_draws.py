"""Uniform replay and MIR's choice, and what every sampler returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from metadrift import registry
from metadrift.replay import PETS, ReplaySampler, UniformReplay, candidates, most_interfered

SAMPLERS = [registry.find("samplers", name)() for name in registry.built_in("samplers")]
SAMPLERS.append(PETS(weighted=False))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_empty_memory_gives_nothing(memory_of: Any, sampler: ReplaySampler) -> None:
    assert sampler.draw(memory_of([]), 3, np.random.default_rng(0)) == []


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_replay_holds_the_tasks_of_its_slot(memory_of: Any, sampler: ReplaySampler) -> None:
    drawn = sampler.draw(memory_of([0, 0, 1, 2, 2]), 20, np.random.default_rng(0))
    assert len(drawn) == 20
    for replay in drawn:
        assert tuple(replay.tasks.images.shape) == (2, 4, 1, 8, 8)
        assert set(replay.tasks.images.flatten().tolist()) == {replay.slot}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_generator_draws_the_same(memory_of: Any, sampler: ReplaySampler) -> None:
    memory = memory_of([0, 0, 1, 2, 2])
    a, b = (sampler.draw(memory, 4, np.random.default_rng(7)) for _ in range(2))
    assert [r.slot for r in a] == [r.slot for r in b]


def test_uniform_replay_is_uniform_and_distinct_in_one_draw(memory_of: Any) -> None:
    memory, rng, seen = memory_of(range(9)), np.random.default_rng(0), np.zeros(9)
    for _ in range(1500):
        slots = [replay.slot for replay in UniformReplay().draw(memory, 3, rng)]
        assert len(set(slots)) == 3
        seen[slots] += 1
    assert chisquare(seen).pvalue > 0.001


def test_uniform_replay_gives_as_many_as_asked_from_a_smaller_memory(memory_of: Any) -> None:
    drawn = UniformReplay().draw(memory_of([0]), 3, np.random.default_rng(0))
    assert [(replay.slot, replay.weight) for replay in drawn] == [(0, 1.0)] * 3


def test_candidates_are_distinct_and_as_many_as_there_are(memory_of: Any) -> None:
    rng = np.random.default_rng(0)
    assert sorted(candidates(memory_of(range(5)), 16, rng)) == [0, 1, 2, 3, 4]
    assert len(set(candidates(memory_of(range(40)), 16, rng))) == 16
    assert candidates(memory_of([]), 16, rng) == []


def test_the_most_interfered_are_taken_and_ties_go_to_the_first() -> None:
    assert most_interfered([0.0, 2.0, -1.0, 2.0], 2) == [1, 3]
    assert most_interfered([1.0, 1.0, 1.0], 2) == [0, 1]
    assert most_interfered([1.0], 4) == [0]
