from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from metadrift.errors import UsageError
from metadrift.memory import M2D3Memory
from metadrift.replay import PETS


def offer_run(tiny: Any, memory: M2D3Memory, label: int, n: int, importance: float = 1.0) -> None:
    """Batches of one cluster, each of which is measured again at once."""
    for _ in range(n):
        tiny.offer(memory, label, importance)
        memory.observe(label, importance)


def make(tiny: Any, capacity: int, seed: int = 0, **options: Any) -> M2D3Memory:
    return M2D3Memory(tiny.buffer(capacity), np.random.default_rng(seed), **options)


def test_quotas_by_hand(tiny: Any) -> None:
    memory = make(tiny, 6)
    offer_run(tiny, memory, 0, 5, importance=1.0)
    offer_run(tiny, memory, 1, 1, importance=4.0)
    # 6 (.5/2 + .5 * 1/3) and 6 (.5/2 + .5 * 2/3)
    assert memory.quotas(1) == pytest.approx({0: 2.5, 1: 3.5})
    offer_run(tiny, memory, 1, 50, importance=4.0)
    assert memory.counts() == {0: 3, 1: 3}  # a fourth would exceed 3.5


def test_a_quota_does_not_depend_on_which_cluster_is_arriving(tiny: Any) -> None:
    """What arrives was never trained on; only stored batches say how hard a cluster is."""
    memory = make(tiny, 6)
    for label in (0, 1):
        offer_run(tiny, memory, label, 3)
    before = memory.quotas(1)
    for _ in range(20):
        tiny.offer(memory, 1, importance=50.0)
    assert memory.quotas(1) == before == {0: 3.0, 1: 3.0}


def test_a_change_dated_far_back_is_counted_exactly(tiny: Any) -> None:
    memory = make(tiny, 2)
    offer_run(tiny, memory, 0, 5000)
    memory.relabel(100, 1)
    assert memory.history.seen == {0: 100, 1: 4900}


def test_the_cluster_most_over_its_quota_gives(tiny: Any) -> None:
    memory = make(tiny, 9, beta=0.0)
    offer_run(tiny, memory, 0, 6)
    offer_run(tiny, memory, 1, 3)
    offer_run(tiny, memory, 2, 1)
    assert memory.counts() == {0: 5, 1: 3, 2: 1}
    offer_run(tiny, memory, 2, 1)
    assert memory.counts() == {0: 4, 1: 3, 2: 2}
    offer_run(tiny, memory, 2, 40)
    assert memory.counts() == {0: 3, 1: 3, 2: 3}


@pytest.mark.parametrize(("each", "before", "p"), [(3, 11, 3 / 12), (1, 1, 1 / 2)])
def test_a_cluster_at_its_quota_replaces_its_own_with_probability_n_of_those_seen(
    tiny: Any, each: int, before: int, p: float
) -> None:
    """Each cluster has `each` stored batches; `before` batches of cluster 1 came before."""
    base = make(tiny, 2 * each, beta=0.0)
    offer_run(tiny, base, 0, 2 * each)
    offer_run(tiny, base, 1, before)
    assert base.counts() == {0: each, 1: each}
    state, replaced, trials = base.state_dict(), 0, 2000
    for seed in range(trials):
        memory = make(tiny, 2 * each, beta=0.0)
        memory.load_state_dict({**state, "rng": np.random.default_rng(seed).bit_generator.state})
        slot = tiny.offer(memory, 1)
        assert memory.counts() == {0: each, 1: each}
        replaced += slot is not None
    assert replaced / trials == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / trials))


def test_a_new_cluster_gets_a_place_when_there_are_more_clusters_than_places(tiny: Any) -> None:
    memory = make(tiny, 3)
    for label in range(6):
        tiny.offer(memory, label)
        assert memory.counts()[label] == 1


@pytest.mark.slow
def test_what_stays_of_a_cluster_is_a_uniform_sample_of_it(tiny: Any) -> None:
    first, second = np.zeros(30), np.zeros(40)
    for seed in range(300):
        memory = make(tiny, 12, seed=seed)
        offer_run(tiny, memory, 0, 30)
        offer_run(tiny, memory, 1, 40)
        first[[s for s in memory.step if s < 30]] += 1
        second[[s - 30 for s in memory.step if s >= 30]] += 1
    # Sampling without replacement varies less than the multinomial, so these are safe.
    assert chisquare(first).pvalue > 0.001
    assert chisquare(second).pvalue > 0.001
    # and it is the right size: six each
    assert first.sum() == second.sum() == 300 * 6


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 5),  # label of the run: right, wrong, new or returning
        st.integers(1, 25),
        st.floats(0, 1e3),
        st.one_of(st.none(), st.tuples(st.integers(0, 30), st.integers(0, 7))),  # relabelling
        st.one_of(st.none(), st.tuples(st.integers(0, 7), st.floats(0, 1e3))),  # replay seen
    ),
    min_size=1,
    max_size=15,
)


@pytest.mark.slow
@given(
    events=EVENTS,
    capacity=st.integers(1, 30),
    kappa=st.floats(0, 1),
    beta=st.sampled_from([0.0, 0.5, 2.0]),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=150)
def test_a_closed_cluster_never_falls_below_its_guarantee(
    tiny: Any, events: list[Any], capacity: int, kappa: float, beta: float, seed: int
) -> None:
    memory = make(tiny, capacity, seed=seed, kappa=kappa, beta=beta)
    guaranteed: dict[int, int] = {}  # of every closed cluster
    for label, length, importance, correction, seen in events:
        if seen is not None:
            memory.observe(*seen)
        for _ in range(length):
            before = memory.counts()
            tiny.offer(memory, label, importance)
            guaranteed.pop(label, None)
            L = len(before.keys() | {label})
            for i in before.keys() - {label}:
                floor = math.floor(kappa * capacity / L)
                guaranteed[i] = min(guaranteed.get(i, before[i]), floor)
                assert len(memory.slots_of(i)) >= min(before[i], guaranteed[i])
            assert all(len(memory.slots_of(i)) >= least for i, least in guaranteed.items())
        if correction is not None:
            memory.relabel(memory.steps - correction[0], correction[1])
            guaranteed = {}  # clusters close anew, with what they hold now
        # n_i <= N_i, and all arrivals are accounted for
        assert all(n <= memory.history.seen[i] for i, n in memory.counts().items())
        assert sum(memory.history.seen.values()) == memory.steps


def test_relabelling_keeps_counts_right(tiny: Any) -> None:
    memory = make(tiny, 10)
    offer_run(tiny, memory, 0, 25)  # the domain changed at step 10, unnoticed
    moved = memory.relabel(10, 1)
    late = int((memory.step >= 10).sum())
    assert moved == late == memory.counts()[1]
    assert memory.counts().get(0, 0) == 10 - late
    assert memory.history.seen == {0: 10, 1: 15}
    assert memory.relabel(10, 1) == 0


def test_a_change_taken_back_leaves_no_cluster_behind(tiny: Any) -> None:
    memory = make(tiny, 4)
    offer_run(tiny, memory, 0, 8)
    offer_run(tiny, memory, 1, 3)
    memory.relabel(8, 0)
    assert memory.counts() == {0: 4}
    assert memory.history.seen == {0: 11}
    assert memory.quotas(0) == {0: 4.0}


def test_a_cluster_that_is_opened_again_goes_on_with_its_counts_and_quota(tiny: Any) -> None:
    memory = make(tiny, 9, beta=0.0)
    offer_run(tiny, memory, 0, 30)
    offer_run(tiny, memory, 1, 30)
    offer_run(tiny, memory, 2, 12)  # the first domain, not recognised yet
    memory.relabel(60, 0)
    assert memory.history.seen == {0: 42, 1: 30}
    assert sum(memory.counts().values()) == 9
    assert memory.quotas(0) == {0: 4.5, 1: 4.5}
    offer_run(tiny, memory, 0, 60)
    assert memory.history.seen == {0: 102, 1: 30}
    assert memory.counts()[1] >= 3  # what it had when it closed, less what a third domain took
    offer_run(tiny, memory, 1, 60)
    assert sorted(memory.counts().values()) == [4, 5]


def test_paper_mode_by_hand(tiny: Any) -> None:
    """n = 4 with n_0 = 2, n_1 = 1, n_2 = 1; I = 1, 2; a batch of cluster 2 with I_t = 2."""
    base = make(tiny, 4, mode="paper")
    offer_run(tiny, base, 0, 2, importance=1.0)
    offer_run(tiny, base, 1, 1, importance=2.0)
    offer_run(tiny, base, 2, 1, importance=2.0)
    state, trials = base.state_dict(), 3000
    seen: Counter[Any] = Counter()
    for seed in range(trials):
        memory = make(tiny, 4, mode="paper")
        memory.load_state_dict({**state, "rng": np.random.default_rng(seed).bit_generator.state})
        slot = tiny.offer(memory, 2, 2.0)
        seen["out" if slot is None else int(base.label[slot])] += 1
    # S_new = 3/4 * 2 = 1.5; M_s = (2/4*1 + 1/4*2)/2 = .5; S_mem = 1/4 * .5 = .125
    P_in = 1 / (1 + math.exp(-(1.5 - 0.125)))
    # A_0 = -(1 - 2/4)*1 = -.5; A_1 = -(1 - 1/4)*2 = -1.5
    P_0 = 1 / (1 + math.exp(-1.0))
    expected = {"out": 1 - P_in, 0: P_in * P_0, 1: P_in * (1 - P_0)}
    assert seen.keys() == expected.keys()
    for outcome, p in expected.items():
        assert seen[outcome] / trials == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / trials))


def test_difficulty_moves_slowly_in_quotas_and_as_fast_as_pets_in_paper_mode(tiny: Any) -> None:
    for mode, rate in (("default", 0.02), ("paper", PETS().importance.rate)):
        memory = make(tiny, 3, mode=mode)
        memory.observe(0, 1.0)
        memory.observe(0, 3.0)
        assert memory.importance.of([0])[0] == pytest.approx(math.sqrt(1 + rate * 8))


def test_paper_mode_takes_difficulties_of_any_size(tiny: Any) -> None:
    memory = make(tiny, 6, mode="paper")
    for label, importance in enumerate((1.0, 1e6, 1e12)):
        offer_run(tiny, memory, label, 4, importance=importance)
    assert sum(memory.counts().values()) == 6


def test_paper_mode_with_one_cluster_lets_the_current_one_leave(tiny: Any) -> None:
    memory = make(tiny, 3, mode="paper")
    offer_run(tiny, memory, 0, 60)
    assert memory.counts() == {0: 3}
    assert memory.step.max() > 2


def test_paper_mode_loses_the_older_domains(tiny: Any) -> None:
    paper, default = make(tiny, 12, mode="paper"), make(tiny, 12)
    for memory in (paper, default):
        for label in range(3):
            offer_run(tiny, memory, label, 300)
    assert paper.counts() == {2: 12}
    assert default.counts() == {0: 4, 1: 4, 2: 4}


def test_paper_mode_goes_on_when_all_other_clusters_are_empty(tiny: Any) -> None:
    memory = make(tiny, 3, mode="paper")
    offer_run(tiny, memory, 0, 3)
    offer_run(tiny, memory, 1, 200)
    assert memory.counts() == {1: 3}
    assert memory.step.max() > 100


def test_wrong_options_are_told(tiny: Any) -> None:
    with pytest.raises(UsageError, match="modes default, learned and paper"):
        make(tiny, 3, mode="printed")
    with pytest.raises(UsageError, match="kappa"):
        make(tiny, 3, kappa=2.0)
