import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metadrift.errors import UsageError
from metadrift.evaluation.intervals import over_seeds, paired_difference

values = st.lists(st.floats(0, 1), min_size=2, max_size=12)


@given(values)
def test_the_interval_over_seeds_is_students(sample):
    spread = over_seeds(sample)
    expected = stats.t.ppf(0.975, len(sample) - 1) * stats.sem(sample)
    assert spread.ci95 == pytest.approx(expected, abs=1e-12)
    assert spread.mean == pytest.approx(np.mean(sample))


def test_one_seed_has_no_spread():
    spread = over_seeds([0.4])
    assert spread.mean == 0.4
    assert math.isnan(spread.sd)
    assert math.isnan(spread.ci95)
    assert math.isnan(paired_difference([0.4], [0.3]).t95[0])


def test_pairing_removes_what_the_seeds_have_in_common():
    rng = np.random.default_rng(0)
    common = rng.normal(0.5, 0.2, 8)
    theirs = common + rng.normal(0, 0.002, 8)
    ours = common + 0.03 + rng.normal(0, 0.002, 8)
    difference = paired_difference(ours.tolist(), theirs.tolist())
    low, high = difference.t95
    assert difference.mean == pytest.approx(0.03, abs=0.005)
    assert low < difference.mean < high
    assert over_seeds(ours.tolist()).ci95 > 10 * (high - low)


def test_values_that_cannot_be_paired_are_refused():
    with pytest.raises(UsageError, match="cannot be paired"):
        paired_difference([0.1, 0.2], [0.1])
    with pytest.raises(UsageError, match="there is no value"):
        over_seeds([])
