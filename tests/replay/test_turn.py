import numpy as np
import pytest
import torch

from metadrift.errors import UsageError
from metadrift.replay import turned
from metadrift.tasks import TaskBatch


def quarters_of(old: TaskBatch, new: TaskBatch) -> list[list[int]]:
    """By how many quarters each class was turned; every one of its images must agree."""
    label = torch.cat([old.support_labels, old.query_labels])
    found = []
    for before, after in zip(old.images, new.images, strict=True):
        of_task = []
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


def test_a_class_turns_as_a_whole_support_and_query_alike(make_tasks):
    tasks = make_tasks(tasks=40, ways=5, shots=2, queries=3, size=8)
    before = tasks.images.clone()
    found = quarters_of(tasks, turned(tasks, 1.0, np.random.default_rng(0)))
    assert torch.equal(tasks.images, before)
    counts = np.bincount(np.ravel(found), minlength=4)
    assert counts[0] == 0
    assert counts[1:].min() > 40  # 200 classes, a third each
    assert len({tuple(task) for task in found}) > 30  # each class and task on its own


def test_three_quarters_make_all_directions_equally_frequent(make_tasks):
    tasks = make_tasks(tasks=80, ways=5, shots=1, queries=1, size=8)
    found = quarters_of(tasks, turned(tasks, 0.75, np.random.default_rng(1)))
    assert np.bincount(np.ravel(found), minlength=4).min() > 70  # of 400


def test_a_share_of_nothing_is_the_identity(make_tasks):
    tasks = make_tasks(size=8)
    assert torch.equal(turned(tasks, 0.0, np.random.default_rng(0)).images, tasks.images)


def test_oblong_images_turn_by_a_half(make_tasks):
    square = make_tasks(tasks=2, size=8)
    tasks = TaskBatch(square.images[..., :5], square.geometry)
    after = turned(tasks, 1.0, np.random.default_rng(0))
    assert torch.equal(after.images, tasks.images.flip(-1, -2))


def test_a_wrong_share_is_told(make_tasks):
    with pytest.raises(UsageError, match=r"within 0..1"):
        turned(make_tasks(), 1.5, np.random.default_rng(0))
