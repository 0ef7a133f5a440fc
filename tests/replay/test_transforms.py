"""Fresh tasks: what each transform does, and that the forms follow from the seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.replay import FreshTasks, Resplit, Shift, Transform, Turn
from metadrift.tasks import TaskBatch, TaskGeometry

BOTH = (Turn(0.75), Shift(0.107), Resplit(1.0))


def rngs(tasks: TaskBatch, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, t]) for t in range(len(tasks))]


def tasks_of(size: int, channels: int = 1, T: int = 2) -> TaskBatch:
    shape = (T, 6, channels, size, size)
    images = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    return TaskBatch(torch.from_numpy(images), TaskGeometry(2, 1, 2))


@given(
    transform=st.one_of(
        st.builds(Shift, st.floats(0, 0.4)),
        st.builds(Turn, st.floats(0, 1)),
        st.builds(Resplit, st.floats(0, 1)),
    ),
    size=st.integers(4, 30),
    channels=st.sampled_from([1, 3]),
)
@settings(deadline=None, max_examples=60)
def test_shape_type_and_the_given_images_stay(
    transform: Transform, size: int, channels: int
) -> None:
    tasks = tasks_of(size, channels)
    before = tasks.images.clone()
    one, two = transform(tasks, rngs(tasks)), transform(tasks, rngs(tasks))
    assert one.images.shape == before.shape
    assert one.images.dtype == torch.uint8
    assert one.geometry == tasks.geometry
    assert torch.equal(tasks.images, before)
    assert torch.equal(one.images, two.images)  # the generators decide


@pytest.mark.parametrize("transform", [Shift(0.0), Turn(0.0), Resplit(0.0)])
def test_no_strength_is_the_identity(transform: Transform) -> None:
    tasks = tasks_of(9)
    assert torch.equal(transform(tasks, rngs(tasks)).images, tasks.images)


@pytest.mark.parametrize("transform", BOTH)
def test_a_tasks_form_depends_on_its_own_generator_alone(transform: Transform) -> None:
    tasks = tasks_of(12, T=3)
    together = transform(tasks, rngs(tasks))
    alone = transform(tasks[1:2], rngs(tasks)[1:2])
    assert torch.equal(together.images[1], alone.images[0])


def test_three_of_28_pixels_by_default_each_image_on_its_own() -> None:
    image = torch.zeros(28, 28, dtype=torch.uint8)
    image[14, 14] = 255
    tasks = TaskBatch(image.expand(40, 20, 1, 28, 28), TaskGeometry(5, 1, 3))
    out = Shift()(tasks, rngs(tasks)).images.reshape(800, 28, 28)
    rows, columns = (out == 255).nonzero()[:, 1:].T
    assert len(rows) == 800  # no dot is lost or doubled
    assert set(rows.tolist()) == set(columns.tolist()) == set(range(11, 18))
    assert len({*zip(rows.tolist(), columns.tolist(), strict=True)}) == 49
    first_task = {*zip(rows[:20].tolist(), columns[:20].tolist(), strict=True)}
    assert len(first_task) > 5


def test_every_shift_is_what_slicing_says() -> None:
    tasks = tasks_of(10, channels=3, T=20)
    out = Shift(0.2)(tasks, rngs(tasks))
    for before, after in zip(
        tasks.images.flatten(0, 1).numpy(), out.images.flatten(0, 1).numpy(), strict=True
    ):
        padded = np.pad(before, [(0, 0), (2, 2), (2, 2)], mode="edge")
        windows = [padded[:, y : y + 10, x : x + 10] for y in range(5) for x in range(5)]
        assert any(np.array_equal(after, window) for window in windows)


def quarters_of(old: TaskBatch, new: TaskBatch) -> list[list[int]]:
    """By how many quarters each class was turned; every one of its images must agree."""
    label = torch.cat([old.support_labels, old.query_labels])
    found = []
    for before, after in zip(old.images, new.images, strict=True):
        of_task: list[int] = []
        for c in range(old.geometry.ways):
            pairs = list(zip(before[label == c], after[label == c], strict=True))
            fits = [
                q
                for q in range(4)
                if all(torch.equal(torch.rot90(a, q, (1, 2)), b) for a, b in pairs)
            ]
            assert len(fits) == 1
            of_task += fits
        found.append(of_task)
    return found


def test_a_class_turns_as_a_whole_support_and_query_alike(make_tasks: Any) -> None:
    tasks = make_tasks(tasks=40, ways=5, shots=2, queries=3, size=8)
    found = quarters_of(tasks, Turn(1.0)(tasks, rngs(tasks)))
    counts = np.bincount(np.ravel(found), minlength=4)
    assert counts[0] == 0
    assert counts[1:].min() > 40  # 200 classes, a third each
    assert len({tuple(task) for task in found}) > 30  # each class and task on its own


def test_three_quarters_make_all_directions_equally_frequent(make_tasks: Any) -> None:
    tasks = make_tasks(tasks=80, ways=5, shots=1, queries=1, size=8)
    found = quarters_of(tasks, Turn()(tasks, rngs(tasks, seed=1)))
    assert np.bincount(np.ravel(found), minlength=4).min() > 70  # of 400


def test_oblong_images_turn_by_a_half(make_tasks: Any) -> None:
    square = make_tasks(tasks=2, size=8)
    tasks = TaskBatch(square.images[..., :5], square.geometry)
    after = Turn(1.0)(tasks, rngs(tasks))
    assert torch.equal(after.images, tasks.images.flip(-1, -2))


def test_the_switch_says_which_tasks_are_fresh(make_tasks: Any) -> None:
    tasks = make_tasks(size=9)
    for fresh, arriving, replayed in (
        ("all", True, True),
        ("replay", False, True),
        ("off", False, False),
    ):
        switch = FreshTasks(fresh, BOTH)  # type: ignore[arg-type]
        assert torch.equal(switch.arriving(tasks).images, tasks.images) is not arriving
        assert torch.equal(switch.replayed(tasks).images, tasks.images) is not replayed
        rngs = [np.random.default_rng(0)] * len(tasks)
        assert torch.equal(switch.replayed_by(tasks, rngs).images, tasks.images) is not replayed


def test_no_two_uses_give_the_same_form_and_a_resumed_one_goes_on(make_tasks: Any) -> None:
    tasks, fresh, resumed = make_tasks(size=9), FreshTasks("all", BOTH), FreshTasks("all", BOTH)
    forms = [fresh.arriving(tasks).images for _ in range(5)]
    assert not any(torch.equal(a, b) for a in forms for b in forms if a is not b)
    # A measurement changes nothing.
    fresh.replayed_by(tasks, [np.random.default_rng(0)] * len(tasks))
    resumed.load_state_dict(fresh.state_dict())
    assert torch.equal(fresh.replayed(tasks).images, resumed.replayed(tasks).images)
    assert not torch.equal(
        FreshTasks("all", BOTH, seed=1).arriving(tasks).images,
        FreshTasks("all", BOTH, seed=2).arriving(tasks).images,
    )


def test_several_processes_transform_their_shares_as_one_does_the_whole(make_tasks: Any) -> None:
    tasks = make_tasks(tasks=6, size=9)
    whole = FreshTasks("all", BOTH).arriving(tasks)
    shares = [
        FreshTasks("all", BOTH).arriving(tasks[2 * rank : 2 * rank + 2], rank) for rank in range(3)
    ]
    assert torch.equal(torch.cat([share.images for share in shares]), whole.images)


def test_a_new_split_keeps_every_example_in_its_class_and_draws_each_as_support() -> None:
    g = TaskGeometry(ways=3, shots=2, queries=4)
    label = torch.cat([torch.arange(3).repeat_interleave(2), torch.arange(3).repeat_interleave(4)])
    rows = (10.0 * label + torch.arange(18) / 100)[None, :, None]
    tasks, supports = TaskBatch(rows, g), set()
    for seed in range(40):
        out = Resplit()(tasks, rngs(tasks, seed))
        assert sorted(out.examples.flatten().tolist()) == sorted(rows.flatten().tolist())
        assert torch.equal(out.support.flatten() // 10, tasks.support_labels.float())
        assert torch.equal(out.query.flatten() // 10, tasks.query_labels.float())
        supports |= set(out.support.flatten().tolist())
    assert len(supports) == 18


def test_half_of_the_tasks_are_split_anew() -> None:
    rows = torch.arange(12.0).reshape(1, 12, 1).expand(400, 12, 1)
    tasks = TaskBatch(rows, TaskGeometry(ways=2, shots=3, queries=3))
    changed = (Resplit(0.5)(tasks, rngs(tasks)).examples != rows).any(1).float().mean()
    assert 0.4 < changed < 0.6
