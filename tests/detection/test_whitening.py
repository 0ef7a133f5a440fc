"""Whitening: equal weight for every direction, as far as the sample tells them apart."""

import numpy as np
import pytest

from metadrift.detection.whitening import Whitening


def correlated(N: int, D: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (N, D)) @ rng.normal(size=(D, D)) * 10.0 ** np.arange(D) + 7


@pytest.mark.parametrize(("N", "shrink"), [(500, 0.5), (4, 0.5), (2, 4 / 6)])
def test_a_correlation_is_taken_out_by_half_and_less_if_the_sample_is_small(
    N: int, shrink: float
) -> None:
    sample = correlated(N)
    before = np.linalg.eigvalsh(np.corrcoef(sample.T))
    after = np.linalg.eigvalsh(np.cov(Whitening(sample)(sample).T, bias=True))
    assert np.allclose(np.sort(before / ((1 - shrink) * before + shrink)), after, atol=1e-8)


def test_a_jump_of_what_never_varied_is_seen_and_limited() -> None:
    sample = correlated(100)
    sample[:, 2] = 3.0
    white = Whitening(sample)
    usual = white(sample).std()
    for far in (3.01, 1e9):
        moved = white(np.array([*sample.mean(0)[:2], far, sample.mean(0)[3]]))
        assert 5 * usual < np.abs(moved).max() <= 10 / np.sqrt(0.5) + 1e-9


def test_a_restored_whitening_gives_the_same_numbers() -> None:
    sample = correlated(50)
    white = Whitening(sample)
    again = Whitening.from_state(white.state_dict())
    assert np.array_equal(white(sample), again(sample))
    assert np.array_equal(white(sample[3]), again(sample[3]))
