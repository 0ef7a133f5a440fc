from __future__ import annotations

import numpy as np
import pytest
import torch

from metadrift.examples import Pictures
from metadrift.memory import Buffer
from metadrift.replay import dark_term
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=3, shots=1, queries=2)


def logits(seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(2, 6, 3))).float()


def test_what_was_said_then_costs_nothing_now() -> None:
    buffer = Buffer(1, 2, GEOMETRY, Pictures(8, 1), logits=True)
    images = torch.zeros(2, 9, 1, 8, 8, dtype=torch.uint8)
    buffer.put(0, TaskBatch(images, GEOMETRY), logits(0) - 300)
    assert dark_term(logits(0), *buffer.get_logits([0])).max() < 1e-5
    assert dark_term(logits(1), *buffer.get_logits([0])).min() > 0.1


def test_the_gradient_pulls_towards_the_stored_logits_of_known_tasks_only() -> None:
    now = logits(0).requires_grad_()
    stored = logits(1)
    dark_term(now, stored, torch.tensor([True, False])).sum().backward()
    assert now.grad is not None
    difference = (now - stored).detach()
    centred = difference - difference.mean(-1, keepdim=True)
    torch.testing.assert_close(now.grad[0], 2 / 18 * centred[0])
    assert now.grad[1].abs().max() == 0


def test_terms_are_means_over_a_task() -> None:
    term = dark_term(torch.zeros(2, 6, 3), logits(2), torch.tensor([True, True]))
    expected = logits(2).var(-1, correction=0).mean(-1)
    assert term.tolist() == pytest.approx(expected.tolist())
