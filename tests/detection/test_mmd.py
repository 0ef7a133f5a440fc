"""The incremental two-window statistic against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.detection.mmd import TwoWindowMMD, median_bandwidth, null_moments, two_window_mmd
from metadrift.errors import MetadriftError


def by_definition(z: np.ndarray, B: int, bandwidth: float) -> float:
    """Equation 2 and 3 of the paper, term by term, on the last 2B rows."""

    def k(x: np.ndarray, y: np.ndarray) -> float:
        return math.exp(-float(((x - y) ** 2).sum()) / (2 * bandwidth**2))

    u, v = z[-2 * B : -B], z[-B:]
    total = 0.0
    for i in range(B):
        for j in range(B):
            if i != j:
                total += k(u[i], u[j]) + k(v[i], v[j]) - k(u[i], v[j]) - k(u[j], v[i])
    return total / (B * (B - 1))


def test_six_numbers_by_hand() -> None:
    # U = 0 0 1, V = 1 2 2; k of distance 0, 1, 2 is 1, a, b. Pairs i < j, each counted twice:
    # uu: (0,0) (0,1) (0,1) -> 1 + 2a; vv: (1,2) (1,2) (2,2) -> 2a + 1
    # uv: u1v2 u1v3 u2v3 u2v1 u3v1 u3v2 -> 0-2 0-2 0-2 0-1 1-1 1-2 -> 3b + a + 1 + a
    a, b = math.exp(-1 / 2), math.exp(-4 / 2)
    expected = (2 * (1 + 2 * a) + 2 * (1 + 2 * a) - 2 * (1 + 2 * a + 3 * b)) / 6
    mmd = TwoWindowMMD(B=3, bandwidth=1.0)
    found = [mmd.update(np.array([x])) for x in (0.0, 0.0, 1.0, 1.0, 2.0, 2.0)]
    assert all(math.isnan(W) for W in found[:5])
    assert found[5] == pytest.approx(expected, abs=1e-15)


def test_twenty_thousand_steps_stay_exact() -> None:
    rng = np.random.default_rng(0)
    B, D = 12, 5
    z = rng.normal(0, 1, (20_000, D)) + np.repeat(rng.normal(0, 2, (20, D)), 1000, axis=0)
    mmd = TwoWindowMMD(B, 1.7)
    found = np.array([mmd.update(x) for x in z])
    expected = np.array(
        [two_window_mmd(z[t - 2 * B : t - B], z[t - B : t], 1.7) for t in range(2 * B, len(z) + 1)]
    )
    assert np.isnan(found[: 2 * B - 1]).all()
    assert np.abs(found[2 * B - 1 :] - expected).max() < 1e-10


@settings(max_examples=60, deadline=None)
@given(
    B=st.integers(2, 9),
    D=st.integers(1, 6),
    steps=st.integers(0, 60),
    bandwidth=st.floats(0.1, 10),
    spread=st.floats(0, 20),
    offset=st.floats(-20, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_and_values_agree_with_the_definition(
    B: int, D: int, steps: int, bandwidth: float, spread: float, offset: float, seed: int
) -> None:
    z = np.random.default_rng(seed).normal(offset, spread, (2 * B + steps, D))
    found = TwoWindowMMD(B, bandwidth).update_many(z)
    assert np.isnan(found[: 2 * B - 1]).all()
    for t in range(2 * B, len(z) + 1, 7):
        assert found[t - 1] == pytest.approx(by_definition(z[:t], B, bandwidth), abs=1e-10)


@settings(max_examples=40, deadline=None)
@given(
    B=st.integers(2, 20),
    cuts=st.lists(st.integers(1, 130), min_size=1, max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_blocks_and_saved_states_give_the_same_bits(B: int, cuts: list[int], seed: int) -> None:
    z = np.random.default_rng(seed).normal(size=(sum(cuts), 7))
    single = TwoWindowMMD(B, 2.0)
    one = np.array([single.update(x) for x in z])
    many, mmd = [], TwoWindowMMD(B, 2.0)
    for block in np.split(z, np.cumsum(cuts)[:-1]):
        many.append(mmd.update_many(block))
        mmd = TwoWindowMMD.from_state(mmd.state_dict())
    assert np.array_equal(one, np.concatenate(many), equal_nan=True)


def test_a_vector_of_another_length_is_refused() -> None:
    mmd = TwoWindowMMD(3, 1.0)
    mmd.update(np.zeros(4))
    with pytest.raises(MetadriftError, match="length 5 came after 1 vectors of length 4"):
        mmd.update(np.zeros(5))


def test_the_median_heuristic_survives_coinciding_vectors() -> None:
    assert median_bandwidth(np.array([[0.0], [2.0]])) == pytest.approx(math.sqrt(2))
    mostly_equal = np.zeros((20, 3))
    mostly_equal[0] = 5.0
    assert 0 < median_bandwidth(mostly_equal) < 10
    assert median_bandwidth(np.ones((20, 3))) == 1.0
    assert median_bandwidth(np.ones((1, 3))) == 1.0


def test_the_spread_without_change_is_known_from_a_sample_alone() -> None:
    rng = np.random.default_rng(1)
    sample = rng.normal(size=(200, 4))
    mean, sd = null_moments(sample, 10, 2.0, 300, rng)
    W = [two_window_mmd(*rng.normal(size=(2, 10, 4)), 2.0) for _ in range(500)]
    assert abs(mean) < sd / 2
    assert sd == pytest.approx(float(np.std(W)), rel=0.25)
