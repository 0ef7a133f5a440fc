from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from metadrift.errors import UsageError
from metadrift.memory import GradientSketch, GSSMemory
from metadrift.memory.gss import Gate


def make(tiny: Any, capacity: int, gate: Gate = "none") -> GSSMemory:
    return GSSMemory(tiny.buffer(capacity), np.random.default_rng(0), dim=2, gate=gate)


def offer(tiny: Any, memory: GSSMemory, x: float, y: float) -> int | None:
    return memory.offer(tiny.batch(memory.steps), 0, 1.0, sketch=np.array([x, y]))


def test_scores_while_there_is_room_by_hand(tiny: Any) -> None:
    memory = make(tiny, 4)
    for x, y in [(2.0, 0.0), (0.0, 5.0), (3.0, 4.0), (-1.0, 0.0)]:
        offer(tiny, memory, x, y)
    # .1 for the first; cosines 0; max(.6, .8); max(-1, 0, -.6)
    assert memory.score == pytest.approx([0.1, 1.0, 1.8, 1.0])


def test_a_full_memory_replaces_by_score(tiny: Any) -> None:
    base = make(tiny, 2)
    offer(tiny, base, 1.0, 0.0)
    offer(tiny, base, 0.0, 1.0)
    state, trials = base.state_dict(), 3000
    seen = {None: 0, 0: 0, 1: 0}
    for seed in range(trials):
        memory = make(tiny, 2)
        memory.load_state_dict({**state, "rng": np.random.default_rng(seed).bit_generator.state})
        slot = offer(tiny, memory, 4.0, 3.0)
        seen[slot] += 1
        if slot is not None:
            assert memory.score[slot] == pytest.approx(1.8)
            assert memory.sketches[slot] == pytest.approx([0.8, 0.6])
    # C = .1, 1; c = 1 + .8
    expected = {0: 0.1 / 1.1 * 0.1 / 1.9, 1: 1 / 1.1 * 1 / 2.8}
    expected_all = {None: 1 - sum(expected.values()), **expected}
    for slot, p in expected_all.items():
        assert seen[slot] / trials == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / trials))


def test_the_original_gate_opens_only_for_opposed_gradients(tiny: Any) -> None:
    memory = make(tiny, 3, gate="original")
    for _ in range(200):
        offer(tiny, memory, 1.0, 0.2)
    assert memory.acceptance_rate == 0.0
    admitted = [offer(tiny, memory, -1.0, 0.0) for _ in range(50)]
    assert any(slot is not None for slot in admitted)
    assert memory.acceptance_rate > 0


def test_the_relative_gate_opens_for_what_is_less_alike_than_what_would_leave(tiny: Any) -> None:
    memory = make(tiny, 2, gate="relative")
    offer(tiny, memory, 1.0, 0.0)
    offer(tiny, memory, 0.8, 0.6)
    assert memory.score == pytest.approx([0.1, 1.8])
    # c = 1 + .99: more alike than either, so it never comes in.
    assert all(offer(tiny, memory, 0.9, 0.1) is None for _ in range(200))
    # c = 1 + 0 < 1.8: slot 1 is drawn with 1.8/1.9 and leaves with 1.8/2.8; slot 0 never does.
    slots = [offer(tiny, memory, -0.6, 0.8) for _ in range(40)]
    assert next(slot for slot in slots if slot is not None) == 1
    assert 0 not in slots


@pytest.mark.parametrize("gate", ["relative", "original"])
def test_a_new_direction_finds_a_place_and_the_old_one_keeps_one(tiny: Any, gate: Gate) -> None:
    """Two domains of opposed gradients, the second ten times as long."""
    memory, rng = make(tiny, 8, gate=gate), np.random.default_rng(1)
    for center, steps in (((1.0, 0.5), 40), ((-1.0, 0.5), 400)):
        for _ in range(steps):
            x, y = np.array(center) + 0.1 * rng.normal(size=2)
            offer(tiny, memory, x, y)
    assert 0 < (memory.sketches[:, 0] > 0).sum() < 8


def test_a_gate_or_a_comparison_that_does_not_exist_is_told(tiny: Any) -> None:
    with pytest.raises(UsageError, match="relative, none, original"):
        make(tiny, 2, gate="half-open")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least one stored gradient, not 0"):
        GSSMemory(tiny.buffer(2), np.random.default_rng(0), dim=2, compared=0)


def test_without_the_gate_the_acceptance_rate_is_recorded(tiny: Any) -> None:
    memory = make(tiny, 3)
    slots = [offer(tiny, memory, 1.0, 0.2) for _ in range(100)]
    admitted = sum(slot is not None for slot in slots[3:])
    assert memory.acceptance_rate == admitted / 97 > 0


def test_a_missing_or_wrong_sketch_is_told(tiny: Any) -> None:
    memory = make(tiny, 3)
    with pytest.raises(UsageError, match="gradient sketch \\[2\\]"):
        memory.offer(tiny.batch(0), 0, 1.0)
    with pytest.raises(UsageError, match="not \\[3\\]"):
        memory.offer(tiny.batch(0), 0, 1.0, sketch=np.ones(3))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_sketched_cosines_agree_with_exact_ones() -> None:
    """The stated tolerance for k = 1024: .044 in the mean square, .18 (four times that) for all."""
    rng = np.random.default_rng(0)
    sketch, P, errors = GradientSketch(1024, seed=1), 30_000, []
    scale = rng.lognormal(sigma=2.0, size=P)  # a few parameters carry most of the gradient
    for wanted in np.linspace(-1, 1, 60):
        shared, a, b = rng.normal(size=(3, P)) * scale
        x = math.sqrt(abs(wanted)) * shared + math.sqrt(1 - abs(wanted)) * a
        y = math.copysign(math.sqrt(abs(wanted)), wanted) * shared + math.sqrt(1 - abs(wanted)) * b
        sketched = cosine(sketch(torch.from_numpy(x)), sketch(torch.from_numpy(y)))
        errors.append(sketched - cosine(x, y))
    assert math.sqrt(np.mean(np.square(errors))) < 0.044
    assert np.abs(errors).max() < 0.18


def test_sketched_cosines_agree_on_the_gradients_of_a_network() -> None:
    generator = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(576, 5)
    )
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.1, generator=generator)
    sketch, exact, sketched = GradientSketch(1024, seed=0), [], []
    for _ in range(12):
        images = torch.rand(10, 1, 8, 8, generator=generator)
        labels = torch.randint(5, (10,), generator=generator)
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*net.parameters()])])
        exact.append(gradient.numpy())
        sketched.append(sketch(gradient))
    pairs = [(i, j) for i in range(12) for j in range(i)]
    errors = [cosine(sketched[i], sketched[j]) - cosine(exact[i], exact[j]) for i, j in pairs]
    assert math.sqrt(np.mean(np.square(errors))) < 0.044
    assert np.abs(errors).max() < 0.18


def test_a_sketch_depends_on_its_seed_only() -> None:
    gradient = torch.arange(5000.0)
    np.testing.assert_array_equal(GradientSketch(64, 3)(gradient), GradientSketch(64, 3)(gradient))
    assert not np.array_equal(GradientSketch(64, 3)(gradient), GradientSketch(64, 4)(gradient))
