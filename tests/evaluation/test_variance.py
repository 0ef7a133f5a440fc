import numpy as np
import pytest
import torch

from metadrift.evaluation.variance import replay_variance
from metadrift.learners import make_learner
from metadrift.learners.importance import task_gradients
from metadrift.memory import Buffer, ReservoirMemory
from metadrift.replay import PETS
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=2, shots=1, queries=2)


@pytest.fixture
def scene():
    """A learner, and six stored batches of two clusters, one of them plain to see, one noise."""
    learner = make_learner("protonet", image_size=8, ways=2, filters=4, generator=0)
    memory = ReservoirMemory(Buffer(6, 1, GEOMETRY, 1, 8), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for i in range(6):
        images = rng.integers(0, 256, (1, 6, 1, 8, 8), np.uint8)
        memory.offer(TaskBatch(torch.from_numpy(images), GEOMETRY), int(i >= 4), 1.0)
    pets = PETS()
    pets.observe(0, 1.0)
    pets.observe(1, 3.0)
    return learner, memory, pets


def test_the_variances_are_those_of_many_real_draws(scene):
    learner, memory, pets = scene
    found = replay_variance(learner, memory, pets, np.random.default_rng(0))
    gradients = {
        slot: task_gradients(learner, memory.buffer.get([slot])).mean(0).double()
        for slot in range(6)
    }
    draws = pets.draw(memory, 6000, np.random.default_rng(2))
    drawn = torch.stack([replay.weight * gradients[replay.slot] for replay in draws])
    assert float(drawn.var(0).sum()) == pytest.approx(found.pets, rel=0.05)
    every = torch.stack(list(gradients.values()))
    assert float(every.var(0, unbiased=False).sum()) == pytest.approx(found.uniform, rel=1e-6)
    assert found.error < 1e-9


def test_without_weights_the_draws_are_biased(scene):
    learner, memory, _ = scene
    printed = PETS(weighted=False)
    printed.observe(0, 1.0)
    printed.observe(1, 9.0)
    assert replay_variance(learner, memory, printed, np.random.default_rng(0)).error > 0.05


def test_measuring_changes_nothing(scene):
    learner, memory, pets = scene
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    replay_variance(learner, memory, pets, np.random.default_rng(0), most=4)
    assert all(torch.equal(value, learner.state_dict()[key]) for key, value in before.items())
    assert all(parameter.grad is None for parameter in learner.parameters())
