from __future__ import annotations

import math

import pytest

from metadrift.memory import ClusterImportance


def test_squares_are_averaged_from_the_first_value_on() -> None:
    norms = ClusterImportance(rate=0.1)
    norms.observe(3, 10.0)
    assert norms.of([3]).tolist() == [10.0]
    norms.observe(3, 20.0)
    assert norms.of([3])[0] == pytest.approx(math.sqrt(0.9 * 100 + 0.1 * 400))


def test_nothing_known_makes_all_clusters_equal() -> None:
    assert ClusterImportance(rate=0.1).of([4, 7]).tolist() == [1.0, 1.0]


def test_only_the_clusters_asked_for_stand_in_for_one_that_is_not_known() -> None:
    norms = ClusterImportance(rate=0.1)
    norms.observe(0, 1.0)
    norms.observe(1, 100.0)  # is no longer stored
    assert norms.of([0, 2]).tolist() == [1.0, 1.0]


def test_a_resumed_average_goes_on_to_the_same_bits() -> None:
    norms, resumed = ClusterImportance(rate=0.1), ClusterImportance(rate=0.1)
    for label, value in ((0, 0.3), (2, 0.7), (0, 0.1)):
        norms.observe(label, value)
    resumed.load_state_dict(norms.state_dict())
    for each in (norms, resumed):
        each.observe(0, 0.9)
    assert norms.of([0, 1, 2]).tolist() == resumed.of([0, 1, 2]).tolist()
