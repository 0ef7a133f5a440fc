"""What must hold for every policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import MetadriftError
from metadrift.memory import Memory

# Runs of (label, length, importance), then how far back the stream is relabelled and to what.
RUNS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 15),
        st.floats(0, 100),
        st.one_of(st.none(), st.tuples(st.integers(0, 20), st.integers(0, 6))),
    ),
    min_size=1,
    max_size=12,
)


def check_whole(memory: Memory, numbers: list[int]) -> None:
    n = len(memory)
    assert n == min(memory.capacity, memory.steps)
    assert numbers == memory.step[:n].tolist()  # every slot holds what its step says
    assert len(set(numbers)) == n  # nothing twice
    counts = memory.counts()
    assert sum(counts.values()) == n
    assert 0 not in counts.values()
    for label, stored in counts.items():
        slots = memory.slots_of(label)
        assert len(slots) == len(set(slots)) == stored
        assert set(memory.label[list(slots)].tolist()) == {label}


@pytest.mark.slow
@given(runs=RUNS, capacity=st.integers(1, 12), seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_no_batch_is_lost_or_doubled_and_capacity_holds(
    tiny: Any, policy: str, runs: list[Any], capacity: int, seed: int
) -> None:
    memory = tiny.memory(policy, capacity, seed)
    for label, length, importance, correction in runs:
        for _ in range(length):
            before = tiny.numbers(memory)
            slot = tiny.offer(memory, label, importance)
            after = tiny.numbers(memory)
            if slot is None:
                assert after == before
            else:
                assert after[slot] == memory.steps - 1
                assert after[:slot] + after[slot + 1 :] == before[:slot] + before[slot + 1 :]
        if correction is not None:
            back, new_label = correction
            memory.relabel(memory.steps - back, new_label)
            late = memory.step[: len(memory)] >= memory.steps - back
            assert set(memory.label[: len(memory)][late].tolist()) <= {new_label}
        check_whole(memory, tiny.numbers(memory))


def test_a_memory_resumed_in_mid_stream_admits_the_same(tiny: Any, policy: str) -> None:
    def go_on(memory: Memory, steps: int) -> list[int | None]:
        slots = []
        for _ in range(steps):
            t = memory.steps
            slots.append(tiny.offer(memory, label=t // 40, importance=1 + t % 7))
            if t % 40 == 15:
                memory.relabel(t - 10, t // 40)
        return slots

    for before in (5, 20, 137):
        memory, resumed = tiny.memory(policy, 10), tiny.memory(policy, 10, seed=99)
        go_on(memory, before)
        state = memory.state_dict()
        expected = go_on(memory, 200)
        resumed.load_state_dict(state)
        assert go_on(resumed, 200) == expected
        assert_same(resumed.state_dict(), memory.state_dict())


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b


@pytest.mark.parametrize("importance", [float("nan"), float("inf"), -1.0])
def test_a_diverged_learner_is_named(tiny: Any, policy: str, importance: float) -> None:
    memory = tiny.memory(policy, 3)
    tiny.offer(memory)
    with pytest.raises(MetadriftError, match="importance of the batch of step 1"):
        tiny.offer(memory, importance=importance)
    assert memory.steps == 1
