from __future__ import annotations

import numpy as np
import pytest
import torch

from metadrift.errors import UsageError
from metadrift.memory import Buffer, ReservoirMemory
from metadrift.replay import Replay, recombine, recombined
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=5, shots=2, queries=3)
CLASSES = 40


def class_images() -> np.ndarray:
    """One smooth pattern a class, [CLASSES, 14, 14]; pixel (0, 0) is the class's number."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(40, 216, size=(CLASSES, 7, 7))
    patterns = np.kron(coarse, np.ones((2, 2)))
    patterns[:, 0, 0] = np.arange(CLASSES)
    return patterns


def stored_tasks(M: int, seed: int, classes: int = CLASSES) -> TaskBatch:
    """M tasks of noisy patterns; a class may be in several of them."""
    rng, patterns = np.random.default_rng(seed), class_images()
    tasks = []
    for _ in range(M):
        chosen = rng.choice(classes, 5, replace=False)
        each = np.concatenate([np.repeat(chosen, 2), np.repeat(chosen, 3)])
        images = patterns[each] + rng.normal(scale=15, size=(25, 14, 14))
        images[:, 0, 0] = each
        tasks.append(images.clip(0, 255))
    array = np.stack(tasks).astype(np.uint8)[:, :, None]
    return TaskBatch(torch.from_numpy(array), GEOMETRY)


def names(tasks: TaskBatch) -> np.ndarray:
    """The class of every image, [T, 25]."""
    return tasks.images[:, :, 0, 0, 0].numpy()


def test_a_class_never_meets_itself() -> None:
    for seed in range(10):
        new = names(recombine(stored_tasks(12, seed), 30, np.random.default_rng(seed)))
        assert all(len(set(task[:10].tolist())) == 5 for task in new)


def test_it_would_without_the_guard() -> None:
    new = names(recombine(stored_tasks(12, 0), 60, np.random.default_rng(0), guard=None))
    assert any(len(set(task[:10].tolist())) < 5 for task in new)


def test_support_and_query_of_a_way_are_one_stored_class() -> None:
    new = names(recombine(stored_tasks(12, 1), 20, np.random.default_rng(0)))
    for task in new:
        support, query = task[:10].reshape(5, 2), task[10:].reshape(5, 3)
        assert (support == support[:, :1]).all()
        assert (query == support[:, :1]).all()


def test_most_new_tasks_are_not_stored_ones() -> None:
    tasks = stored_tasks(12, 2)
    stored = {frozenset(task[:10].tolist()) for task in names(tasks)}
    new = names(recombine(tasks, 40, np.random.default_rng(0)))
    fresh = [frozenset(task[:10].tolist()) not in stored for task in new]
    assert np.mean(fresh) > 0.9


def test_a_new_task_that_cannot_be_completed_is_a_stored_one() -> None:
    M, rng = 4, np.random.default_rng(1)
    number = torch.arange(M * 5, dtype=torch.uint8).reshape(M, 5)  # every stored class by itself
    each = torch.cat([number.repeat_interleave(2, 1), number.repeat_interleave(3, 1)], 1)
    tasks = TaskBatch(each[:, :, None, None, None].expand(M, 25, 1, 14, 14), GEOMETRY)
    place = rng.normal(size=M * 5)
    distance = np.abs(place[:, None] - place)
    a, b = np.triu_indices(5, 1)
    within = np.concatenate([distance[i + a, i + b] for i in range(0, M * 5, 5)] * 2)
    features = torch.from_numpy(place).reshape(M, 5, 1)
    new = names(recombine(tasks, 100, rng, guard=0.7, features=features))[:, :10:2]
    given_up = 0
    for task in new:
        x, y = task[a], task[b]
        assert ((x // 5 == y // 5) | (distance[x, y] >= np.quantile(within, 0.7))).all()
        given_up += task.tolist() == sorted(task.tolist()) and len(set(task // 5)) == 1
    assert 0 < given_up < 100


def test_one_task_alone_gives_its_own_classes() -> None:
    tasks = stored_tasks(1, 0)
    new = names(recombine(tasks, 5, np.random.default_rng(0)))
    assert all(set(task) == set(names(tasks)[0]) for task in new)


def test_a_replay_is_recombined_within_its_cluster() -> None:
    memory = ReservoirMemory(Buffer(20, 2, GEOMETRY, 1, 14), np.random.default_rng(0))
    for slot in range(20):
        tasks = stored_tasks(2, slot, classes=20)
        if slot % 2:  # label 1 has the classes 20..39 only
            images = tasks.images.clone()
            images[:, :, 0, 0, 0] += 20
            tasks = TaskBatch(images, GEOMETRY)
        memory.offer(tasks, slot % 2, 1.0)
    rng = np.random.default_rng(0)
    for slot in (4, 7):
        replay = Replay(memory.buffer.get([slot]), weight=1.5, slot=slot)
        new = recombined(memory, replay, rng)
        assert (new.weight, new.slot, len(new.tasks)) == (1.5, slot, 2)
        assert replay.as_stored
        assert not new.as_stored
        assert set((names(new.tasks) // 20).flatten().tolist()) == {slot % 2}
        assert not torch.equal(new.tasks.images, replay.tasks.images)


def test_a_wrong_guard_is_told() -> None:
    with pytest.raises(UsageError, match="guard"):
        recombine(stored_tasks(2, 0), 1, np.random.default_rng(0), guard=1.5)
