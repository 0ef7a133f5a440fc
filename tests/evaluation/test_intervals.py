from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from metadrift.errors import MetadriftError
from metadrift.evaluation.intervals import over_seeds, paired_difference


def test_the_interval_over_seeds_is_scipys_t_interval():
    values = [0.41, 0.45, 0.39, 0.44]
    ours = over_seeds(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert ours.mean - ours.ci95 == pytest.approx(low)
    assert ours.mean + ours.ci95 == pytest.approx(high)
    assert ours.sd == pytest.approx(np.std(values, ddof=1))


def test_one_seed_has_a_mean_and_no_interval():
    one = over_seeds([0.5])
    assert one.mean == 0.5
    assert math.isnan(one.sd)
    assert math.isnan(one.ci95)
    difference = paired_difference([0.5], [0.4], rng=np.random.default_rng(0))
    assert difference.how == "none"
    assert math.isnan(difference.low)


def test_the_paired_bootstrap_is_scipys_and_repeats_with_its_seed():
    rng = np.random.default_rng(3)
    b = rng.normal(0.5, 0.1, 12)
    a = b + rng.normal(0.03, 0.01, 12)
    ours = paired_difference(a.tolist(), b.tolist(), rng=np.random.default_rng(7))
    again = paired_difference(a.tolist(), b.tolist(), rng=np.random.default_rng(7))
    assert ours == again

    def mean_difference(x, y, axis=-1):
        return np.mean(x, axis=axis) - np.mean(y, axis=axis)

    theirs = stats.bootstrap(
        (a, b), mean_difference, paired=True, rng=np.random.default_rng(8), n_resamples=9999
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=1e-3)
    assert ours.high == pytest.approx(theirs.high, abs=1e-3)
    # Pairing takes out what seeds share: the difference is clear although the methods overlap.
    assert 0 < ours.low < ours.high < 0.06


def test_two_seeds_fall_back_on_t():
    difference = paired_difference([0.6, 0.7], [0.5, 0.5], rng=np.random.default_rng(0))
    expected = over_seeds([0.1, 0.2])
    assert difference.how == "t"
    assert difference.low == pytest.approx(expected.mean - expected.ci95)


def test_equal_differences_give_an_interval_of_no_width():
    difference = paired_difference([0.5, 0.5, 0.5], [0.25] * 3, rng=np.random.default_rng(0))
    assert (difference.low, difference.mean, difference.high) == (0.25, 0.25, 0.25)


def test_unequal_seeds_are_refused():
    with pytest.raises(MetadriftError, match="same seeds"):
        paired_difference([0.5], [0.4, 0.3], rng=np.random.default_rng(0))
    with pytest.raises(MetadriftError, match="no seed"):
        over_seeds([])
