"""Algorithm 1 as printed, and the options beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from metadrift.detection import Algorithm1, DetectionConfig, PaperDetector, two_window_mmd
from metadrift.detection.mmd import median_bandwidth

PAPER = DetectionConfig(mode="paper", window=10, rho=0.01)


def test_five_numbers_by_hand() -> None:
    # rho = 1/2, delta = 1: mu = (mu + W^2)/2, mu2 = (mu2 + W^4)/2, b = mu + sqrt(mu2 - mu^2)
    rule = Algorithm1(rho=0.5, delta=1.0)
    expected = [
        # W, mu, mu2, alarm
        (0.2, 0.02, 0.0008, True),  # b = .02 + .02
        (0.0, 0.01, 0.0004, False),  # b = .01 + .0173
        (-0.2, 0.025, 0.001, False),  # b = .025 + .0194
        (1.0, 0.5125, 0.5005, False),  # b = .5125 + .4877 = 1.0002
        (0.4, 0.33625, 0.26305, False),  # b = .3363 + .3873
    ]
    for W, mu, mu2, alarm in expected:
        assert rule.decide(W) is alarm
        assert (rule.mu, rule.mu2) == pytest.approx((mu, mu2))
        assert rule.threshold == pytest.approx(mu + math.sqrt(mu2 - mu**2))
    small = Algorithm1(rho=0.5, delta=1.0)
    assert small.decide(0.1)  # b = .005 + .005: W below 1 is far above its own square
    rooted = Algorithm1(rho=0.5, delta=1.0, sqrt=True)
    assert not rooted.decide(0.1)  # b = sqrt(.01)
    assert rooted.threshold == pytest.approx(0.1)


def test_nothing_is_decided_before_the_windows_are_full(stream: Callable[..., np.ndarray]) -> None:
    z = stream(0, (60, 0.0))
    detector = PaperDetector(PAPER)
    for x in z[:19]:
        assert detector.update(x) is None
        assert math.isnan(detector.statistic)
        assert math.isnan(detector.threshold)
    detector.update(z[19])
    width = median_bandwidth(z[:20])
    assert detector.statistic == pytest.approx(two_window_mmd(z[:10], z[10:20], width))
    assert detector.threshold > 0


def test_as_printed_about_half_of_all_steps_raise_an_alarm(
    stream: Callable[..., np.ndarray],
) -> None:
    changes = PaperDetector(PAPER).update_many(stream(0, (2000, 0.0)))
    assert 500 < len(changes) < 1500
    assert all(change.started_at == change.at_step for change in changes)


def test_the_refractory_time_keeps_alarms_apart(stream: Callable[..., np.ndarray]) -> None:
    config = replace(PAPER, refractory=40)
    at = [change.at_step for change in PaperDetector(config).update_many(stream(0, (2000, 0.0)))]
    assert len(at) > 5
    assert min(np.diff(at)) > 40


def test_an_obvious_shift_is_found(stream: Callable[..., np.ndarray]) -> None:
    config = replace(PAPER, sqrt=True)
    changes = PaperDetector(config).update_many(stream(0, (300, 0.0), (100, 5.0)))
    near = [change.at_step for change in changes if 300 <= change.at_step < 310]
    assert len(near) >= 5  # calm stretches of this length have one alarm or none
    quiet = PaperDetector(config).update_many(stream(0, (400, 0.0)))
    assert not [change for change in quiet if 300 <= change.at_step < 310]
