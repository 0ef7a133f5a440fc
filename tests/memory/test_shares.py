"""Learned proportions: a share follows what the learner loses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadrift.errors import UsageError
from metadrift.memory import LearnedShares, M2D3Memory


def watched(shares: LearnedShares, *runs: tuple[int, float, int]) -> LearnedShares:
    for label, importance, times in runs:
        for _ in range(times):
            shares.observe(label, importance)
    return shares


def test_clusters_that_are_kept_share_equally_however_hard_they_are() -> None:
    shares = watched(LearnedShares(), (0, 0.1, 50), (1, 5.0, 50), (2, 1.0, 50))
    assert shares.of([0, 1, 2]) == pytest.approx([1 / 3] * 3)


def test_a_cluster_that_is_being_lost_gets_more_and_gives_it_back_when_it_recovers() -> None:
    shares = watched(LearnedShares(floor=0.5, power=2.0), (0, 1.0, 200), (1, 1.0, 200))
    watched(shares, (0, 2.0, 2000))
    assert shares.of([0, 1]) == pytest.approx([0.25 + 0.5 * 4 / 5, 0.25 + 0.5 / 5])
    watched(shares, (0, 1.0, 2000))
    assert shares.of([0, 1]) == pytest.approx([0.5, 0.5])


def test_a_cluster_that_is_still_being_learned_has_lost_nothing() -> None:
    shares = watched(LearnedShares(), (0, 1.0, 100), *((1, 5.0 / n, 1) for n in range(1, 100)))
    assert shares.of([0, 1]) == pytest.approx([0.5, 0.5])


def test_one_observation_moves_a_share_only_a_little() -> None:
    shares = watched(LearnedShares(), (0, 1.0, 100), (1, 1.0, 100))
    shares.observe(0, 2.0)
    assert 0.5 < shares.of([0, 1])[0] < 0.54


@given(
    st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1e6)), max_size=200),
    st.floats(0.05, 1),
)
def test_shares_sum_to_one_and_keep_the_floor(seen: list[tuple[int, float]], floor: float) -> None:
    shares = LearnedShares(floor=floor, after=3)
    for label, importance in seen:
        shares.observe(label, importance)
    found = shares.of(range(5))
    assert found.sum() == pytest.approx(1)
    assert found.min() >= floor / 5 - 1e-12


def test_resumed_shares_go_on_to_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    shares, resumed = LearnedShares(after=2), LearnedShares(after=2)
    watched(shares, *((int(rng.integers(3)), float(rng.random()), 1) for _ in range(30)))
    resumed.load_state_dict(shares.state_dict())
    for each in (shares, resumed):
        watched(each, (1, 0.9, 3), (4, 0.2, 1))
    assert shares.of([0, 1, 2, 4]).tolist() == resumed.of([0, 1, 2, 4]).tolist()


def test_memory_makes_room_for_a_cluster_that_is_being_lost(tiny: Any) -> None:
    memory = M2D3Memory(tiny.buffer(10), np.random.default_rng(0), mode="learned", kappa=0.2)
    for label in (0, 1):
        for _ in range(50):
            tiny.offer(memory, label)
            memory.observe(label, 1.0)
    assert memory.counts() == {0: 5, 1: 5}
    for _ in range(100):
        memory.observe(1, 3.0)
    assert memory.quotas(1) == pytest.approx({0: 1.8, 1: 8.2}, abs=0.05)
    for _ in range(50):
        tiny.offer(memory, 1)
    assert memory.counts() == {0: 2, 1: 8}


def test_wrong_settings_are_told() -> None:
    with pytest.raises(UsageError, match=r"floor in 0..1"):
        LearnedShares(floor=1.5)
