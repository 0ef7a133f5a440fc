"""The window-free statistic."""

from __future__ import annotations

import numpy as np
import pytest

from metadrift.detection import FourierMMD
from metadrift.detection.mmd import pairwise_squared


def test_it_approximates_the_mmd_between_the_two_weighted_pasts() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 3))
    z[270:] += 1.0
    B, width = 15, 1.5
    mmd = FourierMMD(B, width, z[:1], r=4096, seed=0)
    found = mmd.update_many(z)[-1]
    age = np.arange(300)[::-1]
    fast, slow = mmd.fast * (1 - mmd.fast) ** age, mmd.slow * (1 - mmd.slow) ** age
    weight = fast - slow
    weight[0] -= weight.sum()  # both means started at the first vector
    exact = weight @ np.exp(-pairwise_squared(z) / (2 * width**2)) @ weight
    assert found == pytest.approx(exact, rel=0.1)


def test_its_means_remember_as_long_as_windows_of_b_and_four_b() -> None:
    B = 20
    mmd = FourierMMD(B, 1.0, np.zeros((5, 2)), r=64, seed=0)
    old, new = mmd.phi(np.zeros(2)), mmd.phi(np.full(2, 3.0))
    found = mmd.update_many(np.full((B, 2), 3.0))[-1]
    left = [(1 - 2 / (length + 1)) ** B for length in (B, 4 * B)]
    assert found == pytest.approx((left[0] - left[1]) ** 2 * ((old - new) ** 2).sum())


def test_the_inner_product_approximates_the_kernel() -> None:
    z = np.random.default_rng(1).normal(size=(40, 5))
    phi = FourierMMD(10, 2.0, z, r=8192, seed=3).phi(z)
    assert np.abs(phi @ phi.T - np.exp(-pairwise_squared(z) / 8.0)).max() < 0.06


def test_its_spread_without_change_is_known_from_a_sample_alone() -> None:
    rng = np.random.default_rng(2)
    sample = rng.normal(size=(150, 4))
    mmd = FourierMMD(15, 2.0, sample, r=256, seed=0)
    mean, sd = mmd.null_moments(sample, 300, rng)
    seen = mmd.update_many(rng.normal(size=(6000, 4)))[200:]
    assert seen.mean() == pytest.approx(mean, rel=0.3)
    assert seen.std() == pytest.approx(sd, rel=0.5)
