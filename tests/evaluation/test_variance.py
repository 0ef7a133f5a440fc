import math

import numpy as np
import pytest
import torch

from metadrift.evaluation.variance import replay_variance
from metadrift.examples import Pictures
from metadrift.learners import make_learner
from metadrift.learners.importance import task_gradients
from metadrift.memory import Arrival, Buffer, ReservoirMemory
from metadrift.methods.config import ReplayConfig
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import PETS, FreshTasks, Turn, UniformReplay
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=2, shots=1, queries=2)


@pytest.fixture
def scene():
    """A method with six stored batches of two clusters."""
    learner = make_learner("protonet", image_size=8, ways=2, filters=4, generator=0)
    memory = ReservoirMemory(Buffer(6, 1, GEOMETRY, Pictures(8, 1)), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for i in range(6):
        images = rng.integers(0, 256, (1, 6, 1, 8, 8), np.uint8)
        memory.offer(Arrival(TaskBatch(torch.from_numpy(images), GEOMETRY), int(i >= 4)))
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    pets = PETS()
    pets.observe(0, 1.0)
    pets.observe(1, 3.0)
    return ReplayingMethod(learner, optimizer, memory, ReplayConfig(), rng, pets)


def test_the_variances_are_those_of_many_real_draws(scene):
    learner, memory, pets = scene.learner, scene.memory, scene.sampler
    found = replay_variance(scene, np.random.default_rng(0))
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
    scene.sampler = PETS(weighted=False)
    scene.sampler.observe(0, 1.0)
    scene.sampler.observe(1, 9.0)
    assert replay_variance(scene, np.random.default_rng(0)).error > 0.05


def test_the_least_is_reached_by_exact_norms_and_by_no_other(scene):
    squared = {0: [], 1: []}
    for slot in range(6):
        gradient = task_gradients(scene.learner, scene.memory.buffer.get([slot])).mean(0).double()
        squared[int(scene.memory.label[slot])].append(float(gradient.square().sum()))
    exact = [math.sqrt(np.mean(squared[label])) for label in (0, 1)]
    for factor in (0.5, 0.9, 1.0, 1.1, 2.0):
        scene.sampler = PETS(uniform=0.0)
        scene.sampler.observe(0, exact[0])
        scene.sampler.observe(1, exact[1] * factor)
        found = replay_variance(scene, np.random.default_rng(0))
        if factor == 1.0:
            assert found.pets == pytest.approx(found.least, rel=1e-9)
        else:
            assert found.pets > found.least * (1 + 1e-6)
        assert found.least < found.uniform


def test_what_is_measured_is_what_would_be_replayed(scene):
    stored = replay_variance(scene, np.random.default_rng(0))
    scene.fresh_tasks = FreshTasks("replay", [Turn(1.0)])
    turned = replay_variance(scene, np.random.default_rng(0))
    assert abs(turned.uniform / stored.uniform - 1) > 1e-3
    scene.fresh_tasks = FreshTasks("off", [Turn(1.0)])
    assert replay_variance(scene, np.random.default_rng(0)) == stored


def test_there_is_nothing_to_measure_without_pets(scene):
    scene.sampler = UniformReplay()
    assert replay_variance(scene, np.random.default_rng(0)) is None


def test_measuring_changes_nothing(scene):
    learner = scene.learner
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    replay_variance(scene, np.random.default_rng(0), most=4)
    assert all(torch.equal(value, learner.state_dict()[key]) for key, value in before.items())
    assert all(parameter.grad is None for parameter in learner.parameters())
