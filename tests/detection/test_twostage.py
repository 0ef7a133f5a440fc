"""The default rule: alarm, confirmation, date, and the next domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from metadrift.detection import DetectionConfig, make_detector
from metadrift.detection.confirm import best_split, find_split, permutation_p, shuffled
from metadrift.detection.mmd import rbf

DEFAULT = DetectionConfig(window=20, burn_in=60)
FOURIER = replace(DEFAULT, mode="fourier")
both_watches = pytest.mark.parametrize("config", [DEFAULT, FOURIER], ids=lambda c: c.mode)


@both_watches
def test_shifts_are_found_once_each_and_dated_back(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    z = stream(0, (200, 0.0), (150, 2.0), (100, 0.0), (300, -2.0))
    changes = make_detector(config).update_many(z)
    assert len(changes) == 3
    for change, true in zip(changes, (200, 350, 450), strict=True):
        assert abs(change.started_at - true) <= 3
        assert true + 12 <= change.at_step <= true + 30
        assert change.statistic > change.threshold


@both_watches
def test_a_long_stream_without_change_gives_no_report(config: DetectionConfig) -> None:
    rng = np.random.default_rng(5)
    mixing = rng.normal(size=(10, 10)) * 10.0 ** rng.uniform(-5, 5, 10)
    assert make_detector(config).update_many(rng.standard_t(4, (6000, 10)) @ mixing) == []


def test_the_scale_of_the_features_does_not_matter(stream: Callable[..., np.ndarray]) -> None:
    z = stream(2, (150, 0.0), (150, 1.5))
    scaled = (z + 7.0) * 10.0 ** np.array([-8, -3, 0, 2, 5, 9])
    plain = [(c.started_at, c.at_step) for c in make_detector(DEFAULT).update_many(z)]
    other = [(c.started_at, c.at_step) for c in make_detector(DEFAULT).update_many(scaled)]
    assert len(plain) == 1
    assert plain == other


def test_a_dimension_that_wakes_up_is_a_change(stream: Callable[..., np.ndarray]) -> None:
    z = stream(4, (300, 0.0))
    z[:150, 3] = 0.0
    (change,) = make_detector(DEFAULT).update_many(z)
    assert abs(change.started_at - 150) <= 3


def test_a_change_of_spread_alone_is_found() -> None:
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal(0, 1, (200, 6)), rng.normal(0, 4, (200, 6))])
    (change,) = make_detector(DEFAULT).update_many(z)
    assert 190 <= change.started_at <= 210


@both_watches
def test_a_first_domain_shorter_than_the_burn_in_is_not_lost(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    z = stream(0, (70, 0.0), (400, 3.0))
    (change,) = make_detector(replace(config, burn_in=200)).update_many(z)
    assert abs(change.started_at - 70) <= 3
    assert change.at_step < 140
    assert change.statistic > change.threshold


def test_a_passing_disturbance_is_not_confirmed(stream: Callable[..., np.ndarray]) -> None:
    z = stream(7, (200, 0.0), (11, 6.0), (300, 0.0))
    detector = make_detector(DEFAULT)
    alarms = 0
    for x in z:
        assert detector.update(x) is None
        alarms += detector.statistic > detector.threshold
    assert alarms > 0


def test_statistic_and_threshold_are_nan_while_learning(stream: Callable[..., np.ndarray]) -> None:
    detector = make_detector(DEFAULT)
    z = stream(0, (70, 0.0))
    detector.update_many(z[:60])
    assert math.isnan(detector.statistic)
    assert math.isnan(detector.threshold)
    detector.update(z[60])
    assert detector.statistic < detector.threshold


def test_long_vectors_are_shortened_and_still_watched() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 900))
    z[120:] += rng.normal(size=900)
    (change,) = make_detector(DEFAULT).update_many(z)
    assert abs(change.started_at - 120) <= 3


def test_the_permutation_test_keeps_its_level() -> None:
    rng = np.random.default_rng(0)
    p = [permutation_p(*np.split(rng.normal(size=(30, 3)), [10]), 2, 39, rng) for _ in range(300)]
    assert 0.02 < np.mean(np.array(p) <= 0.1) < 0.18  # 0.1 within five standard errors


def test_batches_that_resemble_their_neighbours_raise_no_alarm() -> None:
    noise = np.random.default_rng(1).normal(size=(4000, 8))
    z = np.empty_like(noise)
    z[0] = noise[0]
    for t in range(1, len(z)):
        z[t] = 0.3 * z[t - 1] + noise[t]
    assert make_detector(DEFAULT).update_many(z) == []


def test_blocks_stay_whole_and_on_their_side() -> None:
    order = shuffled(11, 4, 3, np.random.default_rng(0)).tolist()
    assert sorted(order) == list(range(11))
    for block in ([0, 1, 2], [3], [4, 5, 6], [7, 8, 9], [10]):
        start = order.index(block[0])
        assert order[start : start + len(block)] == block


def test_the_split_of_two_parts_is_found_where_it_is(stream: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    z = stream(0, (60, 0.0), (30, 3.0))
    found = best_split(z, rbf(z, 2.0), latest=80)
    assert abs(found - 60) <= 1
    split = find_split(z, (5, 5), 2, 100, rng)
    assert split is not None
    assert split[0] == found
    assert split[1] > split[2]
    assert best_split(z, rbf(z, 2.0), latest=20) == 20
    assert find_split(stream(1, (44, 0.0)), (5, 5), 2, 100, rng) is None
    assert find_split(np.ones((44, 3)), (5, 5), 2, 100, rng) is None
