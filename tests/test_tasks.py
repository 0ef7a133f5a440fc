from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metadrift.errors import MetadriftError
from metadrift.tasks import TaskBatch, TaskGeometry

geometries = st.builds(
    TaskGeometry, ways=st.integers(2, 6), shots=st.integers(1, 4), queries=st.integers(1, 4)
)


@given(geometries, st.integers(1, 4), st.sampled_from([1, 3]))
def test_support_and_query_share_out_the_images_class_by_class(geometry, tasks, channels):
    # Every image is filled with its class, so that labels can be read off the pixels.
    labels = torch.arange(geometry.ways, dtype=torch.uint8)
    order = torch.cat([labels.repeat_interleave(n) for n in (geometry.shots, geometry.queries)])
    images = order[None, :, None, None, None].expand(tasks, -1, channels, 2, 2)
    batch = TaskBatch(images, geometry)
    assert len(batch) == tasks
    assert torch.equal(batch.support[0, :, 0, 0, 0].long(), batch.support_labels)
    assert torch.equal(batch.query[0, :, 0, 0, 0].long(), batch.query_labels)
    assert batch.support.shape[1] + batch.query.shape[1] == geometry.images_per_task


def test_support_and_query_are_views_and_a_batch_cannot_be_changed():
    batch = TaskBatch(torch.zeros(2, 8, 1, 4, 4, dtype=torch.uint8), TaskGeometry(2, 1, 3))
    assert batch.support.data_ptr() == batch.images.data_ptr()
    with pytest.raises(FrozenInstanceError):
        batch.images = batch.images + 1


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (torch.zeros(2, 8, 1, 4, 4).double(), "must be uint8 .* float16 or float32"),
        (torch.zeros(2, 8), "must be .tasks, examples, ...."),
        (torch.zeros(2, 8, 2, 4, 4, dtype=torch.uint8), "channels"),
        (torch.zeros(8, 1, 4, 4, dtype=torch.uint8), "tasks, images, channels"),
        (
            torch.zeros(2, 7, 1, 4, 4, dtype=torch.uint8),
            "a 2-way 1-shot task with 3 queries per class has 8 examples, but 7 were given",
        ),
    ],
)
def test_images_that_do_not_fit_are_refused_with_what_would_be_right(images, says):
    with pytest.raises(MetadriftError, match=says):
        TaskBatch(images, TaskGeometry(2, 1, 3))


@pytest.mark.parametrize("numbers", [(1, 1, 1), (5, 0, 1), (5, 1, 0), (-2, 1, 1)])
def test_a_geometry_without_sense_is_refused(numbers):
    with pytest.raises(MetadriftError, match="at least 2 ways, 1 shot and 1 query"):
        TaskGeometry(*numbers)


def test_batches_of_one_shape_join_in_order_and_others_do_not():
    geometry = TaskGeometry(2, 1, 1)
    one, two = (
        TaskBatch(torch.full((n, 4, 1, 3, 3), n, dtype=torch.uint8), geometry) for n in (1, 2)
    )
    joined = TaskBatch.concatenate([one, two])
    assert joined.images[:, 0, 0, 0, 0].tolist() == [1, 2, 2]
    assert torch.equal(joined[1:].images, two.images)
    other = TaskBatch(torch.zeros(1, 4, 3, 3, 3, dtype=torch.uint8), geometry)
    with pytest.raises(MetadriftError, match="cannot be joined"):
        TaskBatch.concatenate([one, other])


def test_a_batch_moves_to_another_device_whole():
    batch = TaskBatch(torch.ones(1, 4, 1, 3, 3, dtype=torch.uint8), TaskGeometry(2, 1, 1))
    moved = batch.to("meta")
    assert moved.images.device.type == "meta"
    assert moved.query_labels.device.type == "meta"
    assert moved.geometry == batch.geometry
