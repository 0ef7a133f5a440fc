from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import UsageError
from metadrift.replay import PETS

LABELS = [0] * 8 + [1] * 3 + [2] * 5 + [3]
SCALES = {0: 0.5, 1: 6.0, 2: 2.0, 3: 1.0}


def gradients(rng: np.random.Generator) -> np.ndarray:
    """A known gradient [6] for each stored batch, larger in some clusters."""
    return np.stack([(rng.normal(size=6) + 0.5) * SCALES[label] for label in LABELS])


def pets_knowing(g: np.ndarray, **options: Any) -> PETS:
    """PETS with the exact root mean square gradient norm of every cluster."""
    pets = PETS(rate=1.0, **options)
    for label in SCALES:
        squared = (g[np.array(LABELS) == label] ** 2).sum(1).mean()
        pets.observe(label, float(np.sqrt(squared)))
    return pets


def test_weighted_replay_is_unbiased(memory_of: Any) -> None:
    rng = np.random.default_rng(0)
    g, memory = gradients(rng), memory_of(LABELS)
    drawn = pets_knowing(g).draw(memory, 20_000, rng)
    estimates = np.stack([replay.weight * g[replay.slot] for replay in drawn])
    error = np.abs(estimates.mean(0) - g.mean(0))
    assert (error < 3 * estimates.std(0) / np.sqrt(len(drawn))).all()


def test_algorithm_3_as_printed_is_not(memory_of: Any) -> None:
    rng = np.random.default_rng(0)
    g, memory = gradients(rng), memory_of(LABELS)
    pets = pets_knowing(g, weighted=False)
    drawn = pets.draw(memory, 20_000, rng)
    assert {replay.weight for replay in drawn} == {1.0}
    estimates = np.stack([g[replay.slot] for replay in drawn])
    error = np.abs(estimates.mean(0) - g.mean(0))
    assert (error > 6 * estimates.std(0) / np.sqrt(len(drawn))).any()


def test_probabilities_and_weights_by_hand(memory_of: Any) -> None:
    memory = memory_of([0, 0, 0, 1])
    pets = PETS()
    pets.observe(0, 1.0)
    pets.observe(1, 9.0)
    # Z = 3/(3+9), 9/(3+9); q = .9 Z + .1 n_i/n
    assert pets.probabilities(memory) == pytest.approx({0: 0.3, 1: 0.7})
    drawn = pets.draw(memory, 200, np.random.default_rng(0))
    weights = {int(memory.label[r.slot]): r.weight for r in drawn}
    assert weights == pytest.approx({0: 0.75 / 0.3, 1: 0.25 / 0.7})
    # second moments: (.75^2/.3 * 1 + .25^2/.7 * 81) / (.75 * 1 + .25 * 81)
    assert pets.variance_ratio == pytest.approx((0.5625 / 0.3 + 0.0625 / 0.7 * 81) / 21)


@pytest.mark.slow
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    norms=st.dictionaries(st.integers(0, 4), st.floats(0, 1e8)),
    seed=st.integers(0, 100),
)
@settings(deadline=None, max_examples=100)
def test_weights_are_bounded_and_average_to_one(
    memory_of: Any, labels: list[int], norms: dict[int, float], seed: int
) -> None:
    memory, pets = memory_of(labels), PETS()
    for label, norm in norms.items():
        pets.observe(label, norm)
    q = pets.probabilities(memory)
    assert sum(q.values()) == pytest.approx(1)
    for replay in pets.draw(memory, 5, np.random.default_rng(seed)):
        assert 0 < replay.weight <= 10 * (1 + 1e-12)
        label = int(memory.label[replay.slot])
        assert replay.weight * q[label] == pytest.approx(memory.counts()[label] / len(memory))


def trace(g: np.ndarray, q: np.ndarray) -> float:
    """Trace of the covariance of g_i/(n q_i), i ~ q."""
    n = len(g)
    return float(((g**2).sum(1) / (n**2 * q)).sum() - (g.mean(0) ** 2).sum())


def per_batch(q: dict[int, float]) -> np.ndarray:
    """The probability of each stored batch, from those of the clusters."""
    return np.array([q[label] / LABELS.count(label) for label in LABELS])


def test_no_other_draw_by_cluster_has_less_variance_than_pets(memory_of: Any) -> None:
    rng = np.random.default_rng(0)
    g = gradients(rng)
    best = pets_knowing(g, uniform=0.0).probabilities(memory_of(LABELS))
    least = trace(g, per_batch(best))
    assert least < 0.7 * trace(g, np.full(len(g), 1 / len(g)))
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(100):
            other = {label: q * np.exp(size * rng.normal()) for label, q in best.items()}
            total = sum(other.values())
            assert trace(g, per_batch({label: q / total for label, q in other.items()})) >= least


def test_the_estimated_ratio_is_the_true_one_of_second_moments(memory_of: Any) -> None:
    rng = np.random.default_rng(1)
    g, memory = gradients(rng), memory_of(LABELS)
    pets = pets_knowing(g)
    pets.draw(memory, 1, rng)
    drawn = per_batch(pets.probabilities(memory))
    uniform, mean = np.full(len(g), 1 / len(g)), (g.mean(0) ** 2).sum()
    true = (trace(g, drawn) + mean) / (trace(g, uniform) + mean)
    assert pets.variance_ratio == pytest.approx(true)
    assert trace(g, drawn) / trace(g, uniform) < pets.variance_ratio < 1


def test_clusters_of_one_norm_are_drawn_uniformly(memory_of: Any) -> None:
    memory, pets = memory_of([0, 0, 0, 1]), PETS()
    assert pets.probabilities(memory) == pytest.approx({0: 0.75, 1: 0.25})  # nothing known
    pets.observe(0, 5.0)
    assert pets.probabilities(memory) == pytest.approx({0: 0.75, 1: 0.25})  # 1 counts like 0
    zero = PETS()
    zero.observe(0, 0.0)
    zero.observe(1, 0.0)
    assert zero.probabilities(memory) == pytest.approx({0: 0.75, 1: 0.25})


def test_a_refresh_asks_for_a_few_of_each_cluster_that_was_not_seen_lately(memory_of: Any) -> None:
    memory, pets, rng = memory_of([0] * 6 + [4] + [2] * 3), PETS(every=25), np.random.default_rng(0)
    asked = pets.stale(memory, rng)
    assert sorted(memory.label[asked].tolist()) == [0, 0, 2, 2, 4]
    assert len(set(asked)) == 5
    for slot in asked:
        pets.observe(int(memory.label[slot]), 3.0 if memory.label[slot] == 4 else 1.0)
    assert pets.probabilities(memory)[4] == pytest.approx(0.9 * 3 / 12 + 0.1 * 0.1)
    assert pets.stale(memory, rng) == []
    for _ in range(24):
        pets.draw(memory, 1, rng)
        pets.observe(0, 1.0)
    assert pets.stale(memory, rng) == []
    pets.draw(memory, 1, rng)
    assert set(memory.label[pets.stale(memory, rng)].tolist()) == {2, 4}
    assert PETS(every=0).stale(memory, rng) == []


def test_a_resumed_sampler_draws_the_same(memory_of: Any) -> None:
    memory, pets, resumed = memory_of(LABELS), PETS(), PETS()
    for label, scale in SCALES.items():
        pets.observe(label, scale)
        pets.observe(label, scale * 1.1)
    for _ in range(20):
        pets.draw(memory, 2, np.random.default_rng(0))
    pets.observe(2, 1.5)
    resumed.load_state_dict(pets.state_dict())
    assert resumed.variance_ratio == pets.variance_ratio
    for each in (pets, resumed):
        each.observe(0, 0.7)
    assert resumed.probabilities(memory) == pets.probabilities(memory)
    due = []
    for each in (pets, resumed):  # clusters 1 and 3 are stale after 5 more draws, 0 and 2 after 25
        rng, found = np.random.default_rng(3), []
        for _ in range(30):
            each.draw(memory, 1, rng)
            found.append(sorted({int(memory.label[slot]) for slot in each.stale(memory, rng)}))
        due.append(found)
    assert due[0] == due[1]
    assert [due[0][i] for i in (3, 4, 23, 24)] == [[], [1, 3], [1, 3], [0, 1, 2, 3]]


@pytest.mark.parametrize("wrong", [{"uniform": 1.5}, {"uniform": -0.1}, {"rate": 0.0}, {"rate": 2}])
def test_rates_that_are_no_shares_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"uniform in 0\.\.1 and rate in 0\.\.1, not"):
        PETS(**wrong)
