"""Fresh tasks of vectors: what each transform changes, and what it leaves alone."""

import numpy as np
import pytest
import torch

from metadrift.errors import UsageError
from metadrift.examples import Arrays, Pictures
from metadrift.methods.config import TransformConfig
from metadrift.replay.vector_transforms import Drop, Mix, Span
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=2, shots=2, queries=3)


def tasks(dtype=torch.float32):
    rows = torch.rand(3, 10, 4, generator=torch.Generator().manual_seed(0)) + 1
    label = torch.tensor([0, 0, 1, 1, 0, 0, 0, 1, 1, 1])
    rows[:, label == 0, 0] = 5.0  # a class that does not vary here
    return TaskBatch(rows.to(dtype), GEOMETRY), label


def rngs(seed=0):
    return [np.random.default_rng([seed, t]) for t in range(3)]


@pytest.mark.parametrize("change", [Span(1.0), Mix(0.9), Drop(0.5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_change_follows_from_its_generators_and_keeps_shape_and_type(change, dtype):
    given, _ = tasks(dtype)
    before = given.examples.clone()
    one, same, other = change(given, rngs()), change(given, rngs()), change(given, rngs(1))
    assert torch.equal(given.examples, before)
    assert torch.equal(one.examples, same.examples)
    assert not torch.equal(one.examples, other.examples)
    assert (one.examples.shape, one.examples.dtype) == (before.shape, dtype)


def test_a_task_is_changed_by_its_own_generator_alone():
    given, _ = tasks()
    for change in (Span(1.0), Mix(0.9), Drop(0.5)):
        alone = change(given[1:2], rngs()[1:2]).examples
        assert torch.equal(alone, change(given, rngs()).examples[1:2])


def test_span_and_mix_move_an_example_only_where_its_class_varies():
    given, label = tasks()
    for change in (Span(1.0), Mix(0.9)):
        moved = change(given, rngs()).examples
        assert torch.allclose(moved[:, label == 0, 0], torch.tensor(5.0))
        assert not torch.allclose(moved[:, label == 0, 1], given.examples[:, label == 0, 1])
    inside = Mix(1.0)(given, rngs()).examples[:, label == 1]
    mine = given.examples[:, label == 1]
    assert bool((inside <= mine.amax(1, keepdim=True) + 1e-6).all())
    assert bool((inside >= mine.amin(1, keepdim=True) - 1e-6).all())


@pytest.mark.parametrize("shots", [1, 4])
def test_the_noise_of_span_has_its_share_of_the_spread_of_the_class(shots):
    geometry = TaskGeometry(ways=2, shots=shots, queries=1)
    first = [*range(shots), 2 * shots]  # the first class's support and query
    size = (400, geometry.images_per_task, 8)
    rows = torch.randn(size, generator=torch.Generator().manual_seed(0))
    moved = Span(0.5)(TaskBatch(rows, geometry), [np.random.default_rng(t) for t in range(400)])
    noise = float((moved.examples - rows)[:, first].square().mean())
    assert noise == pytest.approx(0.25 * float(rows[:, first].var(1).mean()), rel=0.15)


def test_without_a_share_each_has_its_own():
    assert (Span(), Mix(), Drop()) == (Span(0.5), Mix(0.3), Drop(0.3))


def test_drop_takes_the_same_numbers_from_all_examples_of_a_task():
    given, _ = tasks()
    gone = Drop(0.5)(given, rngs()).examples == 0
    assert bool((gone == gone[:, :1]).all())
    assert 0 < gone.float().mean() < 1


def test_transforms_of_the_other_kind_are_left_out_or_refused_by_name():
    assert TransformConfig().only_for(Arrays((4,))).turn == 0
    assert TransformConfig(mix=0.5).only_for(Arrays((4,))).mix == 0.5
    assert TransformConfig().only_for(Pictures(8)) == TransformConfig()
    with pytest.raises(UsageError, match=r"transform.mix is for vectors, and these .* colour pict"):
        TransformConfig(mix=0.5).only_for(Pictures(8))
    with pytest.raises(UsageError, match=r"transform.turn is for pictures, and these"):
        TransformConfig(turn=0.5).only_for(Arrays((4,)))
    with pytest.raises(UsageError, match=r"transform.drop must be within 0..0.95, not 2"):
        TransformConfig(drop=2)
