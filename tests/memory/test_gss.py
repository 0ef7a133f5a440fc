from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from metadrift.errors import UsageError
from metadrift.memory import Arrival, GSSMemory
from metadrift.memory.gss import Gate


def make(tiny: Any, capacity: int, gate: Gate = "none", **options: Any) -> GSSMemory:
    return GSSMemory(tiny.buffer(capacity), np.random.default_rng(0), gate=gate, **options)


def offer(tiny: Any, memory: GSSMemory, similarity: float | None) -> int | None:
    return memory.offer(Arrival(tiny.batch(memory.steps), similarity=similarity))


def test_the_score_is_one_more_than_the_similarity(tiny: Any) -> None:
    memory = make(tiny, 4)
    for similarity in (0.9, 0.0, 0.8, -1.0):
        offer(tiny, memory, similarity)
    assert memory.score == pytest.approx([0.1, 1.0, 1.8, 0.0])  # .1 for the first, whatever it is


def test_a_full_memory_replaces_by_score(tiny: Any) -> None:
    base = make(tiny, 2)
    offer(tiny, base, None)
    offer(tiny, base, 0.0)
    state, trials = base.state_dict(), 3000
    seen = {None: 0, 0: 0, 1: 0}
    for seed in range(trials):
        memory = make(tiny, 2)
        memory.load_state_dict({**state, "rng": np.random.default_rng(seed).bit_generator.state})
        slot = offer(tiny, memory, 0.8)
        seen[slot] += 1
        if slot is not None:
            assert memory.score[slot] == pytest.approx(1.8)
    # C = .1, 1; c = 1 + .8
    expected = {0: 0.1 / 1.1 * 0.1 / 1.9, 1: 1 / 1.1 * 1 / 2.8}
    expected_all = {None: 1 - sum(expected.values()), **expected}
    for slot, p in expected_all.items():
        assert seen[slot] / trials == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / trials))


def test_the_original_gate_opens_only_for_opposed_gradients(tiny: Any) -> None:
    memory = make(tiny, 3, gate="original")
    for _ in range(200):
        offer(tiny, memory, 0.2)
    assert memory.acceptance_rate == 0.0
    admitted = [offer(tiny, memory, -0.5) for _ in range(50)]
    assert any(slot is not None for slot in admitted)


def test_the_relative_gate_opens_for_what_is_less_alike_than_what_would_leave(tiny: Any) -> None:
    memory = make(tiny, 2, gate="relative")
    offer(tiny, memory, None)
    offer(tiny, memory, 0.8)
    # c = 1 + .99: more alike than either, so it never comes in.
    assert all(offer(tiny, memory, 0.99) is None for _ in range(200))
    # c = 1 + 0 < 1.8: slot 1 is drawn with 1.8/1.9 and leaves with 1.8/2.8; slot 0 never does.
    slots = [offer(tiny, memory, 0.0) for _ in range(40)]
    assert next(slot for slot in slots if slot is not None) == 1
    assert 0 not in slots


def test_the_batches_to_compare_with_are_drawn_without_repetition(tiny: Any) -> None:
    memory = make(tiny, 8, compared=5)
    assert memory.draw_compared() == []
    for n in range(1, 9):
        offer(tiny, memory, 0.0)
        drawn = [memory.draw_compared() for _ in range(30)]
        assert {len(set(slots)) for slots in drawn} == {min(n, 5)}
        assert {slot for slots in drawn for slot in slots} == set(range(n))


def test_a_gate_or_a_comparison_that_does_not_exist_is_told(tiny: Any) -> None:
    with pytest.raises(UsageError, match="relative, none, original"):
        make(tiny, 2, gate="half-open")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one stored batch, not 0"):
        make(tiny, 2, compared=0)


def test_without_the_gate_the_acceptance_rate_is_recorded(tiny: Any) -> None:
    memory = make(tiny, 3)
    slots = [offer(tiny, memory, 0.9) for _ in range(100)]
    admitted = sum(slot is not None for slot in slots[3:])
    assert memory.acceptance_rate == admitted / 97 > 0


def test_a_missing_similarity_is_told(tiny: Any) -> None:
    memory = make(tiny, 3)
    offer(tiny, memory, None)
    with pytest.raises(UsageError, match="GSS needs the similarity"):
        offer(tiny, memory, None)
