from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import UsageError
from metadrift.replay import Augment
from metadrift.tasks import TaskBatch, TaskGeometry

AUGMENTS = st.builds(
    Augment,
    shift=st.floats(0, 0.3),
    scale=st.sampled_from([0.0, 0.2]),
    rotation=st.sampled_from([0.0, 15.0]),
    flip=st.booleans(),
    border=st.sampled_from(["edge", "reflect"]),
)


def tasks_of(size: int, channels: int = 1, seed: int = 0, T: int = 2) -> TaskBatch:
    rng = np.random.default_rng(seed)
    shape = (T, 6, channels, size, size)
    images = torch.from_numpy(rng.integers(256, size=shape, dtype=np.uint8))
    return TaskBatch(images, TaskGeometry(2, 1, 2))


@given(augment=AUGMENTS, size=st.integers(4, 30), channels=st.sampled_from([1, 3]))
@settings(deadline=None, max_examples=60)
def test_shape_type_and_the_given_images_stay(augment: Augment, size: int, channels: int) -> None:
    tasks = tasks_of(size, channels)
    before = tasks.images.clone()
    one = augment(tasks, np.random.default_rng(3))
    two = augment(tasks, np.random.default_rng(3))
    assert one.images.shape == before.shape
    assert one.images.dtype == torch.uint8
    assert one.geometry == tasks.geometry
    assert torch.equal(tasks.images, before)
    assert torch.equal(one.images, two.images)  # the generator decides


@given(size=st.integers(4, 30), border=st.sampled_from(["edge", "reflect"]))
@settings(deadline=None, max_examples=20)
def test_no_strength_is_the_identity(size: int, border: str) -> None:
    tasks = tasks_of(size)
    out = Augment(shift=0.0, border=border)(tasks, np.random.default_rng(0))  # type: ignore[arg-type]
    assert torch.equal(out.images, tasks.images)
    barely = Augment(shift=0.0, scale=1e-9, rotation=1e-9)(tasks, np.random.default_rng(0))
    assert torch.equal(barely.images, tasks.images)


def test_three_of_28_pixels_by_default_each_image_on_its_own() -> None:
    image = torch.zeros(28, 28, dtype=torch.uint8)
    image[14, 14] = 255
    tasks = TaskBatch(image.expand(40, 20, 1, 28, 28), TaskGeometry(5, 1, 3))
    out = Augment()(tasks, np.random.default_rng(0)).images.reshape(800, 28, 28)
    rows, columns = (out == 255).nonzero()[:, 1:].T
    assert len(rows) == 800  # no dot is lost or doubled
    assert set(rows.tolist()) == set(columns.tolist()) == set(range(11, 18))
    assert len({*zip(rows.tolist(), columns.tolist(), strict=True)}) == 49
    first_task = {*zip(rows[:20].tolist(), columns[:20].tolist(), strict=True)}
    assert len(first_task) > 5


@pytest.mark.parametrize("ground", [0, 255])
@pytest.mark.parametrize("border", ["edge", "reflect"])
def test_the_ground_goes_on_over_the_border(ground: int, border: str) -> None:
    images = torch.full((2, 6, 1, 20, 20), ground, dtype=torch.uint8)
    tasks = TaskBatch(images, TaskGeometry(2, 1, 2))
    augment = Augment(shift=0.3, scale=0.2, rotation=20, flip=True, border=border)  # type: ignore[arg-type]
    assert (augment(tasks, np.random.default_rng(0)).images == ground).all()


def test_every_shift_is_what_slicing_says() -> None:
    tasks = tasks_of(10, channels=3, T=20)
    for border, mode in [("edge", "edge"), ("reflect", "reflect")]:
        out = Augment(shift=0.2, border=border)(tasks, np.random.default_rng(0))  # type: ignore[arg-type]
        for before, after in zip(
            tasks.images.flatten(0, 1).numpy(), out.images.flatten(0, 1).numpy(), strict=True
        ):
            padded = np.pad(before, [(0, 0), (2, 2), (2, 2)], mode=mode)
            windows = [padded[:, y : y + 10, x : x + 10] for y in range(5) for x in range(5)]
            assert any(np.array_equal(after, window) for window in windows)


def test_flips_mirror_about_half_of_the_images() -> None:
    tasks = tasks_of(8, T=50)
    out = Augment(shift=0.0, flip=True)(tasks, np.random.default_rng(0))
    same = (out.images == tasks.images).flatten(2).all(2)
    mirrored = (out.images == tasks.images.flip(-1)).flatten(2).all(2)
    assert (same ^ mirrored).all()
    assert 100 < int(mirrored.sum()) < 200


def test_a_quarter_turn_and_a_scale_are_what_they_say() -> None:
    images = torch.zeros(1, 4, 1, 21, 21, dtype=torch.uint8)
    images[..., 10, 4:17] = 200  # a bar from left to right
    out = Augment(shift=0.0, scale=0.5)(
        TaskBatch(images, TaskGeometry(2, 1, 1)), np.random.default_rng(0)
    )
    lengths = (out.images[0, :, 0, 10] > 50).sum(1)
    assert len(set(lengths.tolist())) > 1
    assert all(5 <= length <= 21 for length in lengths)
    turned = Augment(shift=0.0, rotation=180.0)(
        TaskBatch(images, TaskGeometry(2, 1, 1)), np.random.default_rng(0)
    )
    assert not torch.equal(turned.images, images)
    assert (turned.images[0, :, 0, 10, 10] > 100).all()  # the centre stays


def test_wrong_strengths_are_told() -> None:
    with pytest.raises(UsageError, match="shift"):
        Augment(shift=0.9)
    with pytest.raises(UsageError, match="border"):
        Augment(border="wrap")  # type: ignore[arg-type]
