"""Replay by learned proportions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metadrift.replay import LearnedReplay


def taught() -> LearnedReplay:
    sampler = LearnedReplay(floor=0.2, power=1.0)
    for label, importance, times in ((0, 1.0, 50), (1, 1.0, 50), (1, 3.0, 500)):
        for _ in range(times):
            sampler.observe(label, importance)
    return sampler


def test_a_cluster_that_is_being_lost_is_drawn_more_often_and_weighs_no_less(
    memory_of: Any,
) -> None:
    memory = memory_of([0] * 8 + [1] * 2)
    drawn = taught().draw(memory, 2000, np.random.default_rng(0))
    share = np.mean([memory.label[replay.slot] == 1 for replay in drawn])
    assert abs(share - (0.1 + 0.8 * 3 / 4)) < 0.03
    assert {replay.weight for replay in drawn} == {1.0}


def test_by_default_half_is_divided_equally_and_half_by_the_square_of_the_need(
    memory_of: Any,
) -> None:
    sampler = LearnedReplay()
    for label, importance, times in ((0, 1.0, 50), (1, 1.0, 50), (1, 3.0, 500)):
        for _ in range(times):
            sampler.observe(label, importance)
    chance = sampler.probabilities(memory_of([0] * 8 + [1] * 2))
    assert chance[1] == pytest.approx(0.25 + 0.5 * 9 / 10, abs=0.001)


def test_a_resumed_sampler_draws_the_same(memory_of: Any) -> None:
    memory, one, two = memory_of([0, 0, 1, 1]), taught(), LearnedReplay(floor=0.2, power=1.0)
    two.load_state_dict(one.state_dict())
    a, b = (s.choose(memory, 50, np.random.default_rng(3)) for s in (one, two))
    assert a == b
    assert one.stale(memory, np.random.default_rng(1)) == two.stale(
        memory, np.random.default_rng(1)
    )
