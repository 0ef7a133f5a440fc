"""What any learner must do, whatever its rule. A new one is checked by its name in the registry."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from metadrift import registry
from metadrift.errors import UsageError
from metadrift.learners import make_learner, task_gradients
from metadrift.randomness import Purpose, torch_generator
from metadrift.runs.config import RunConfig
from metadrift.tasks import TaskBatch

LEARNERS = registry.built_in("learners")
every_learner = pytest.mark.parametrize("name", LEARNERS)
both_normalisations = pytest.mark.parametrize("normalisation", ["batch", "running"])


class Plain(nn.Module):
    """A custom backbone, with BatchNorm layers of both kinds."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 6),
            nn.BatchNorm1d(6),
        )

    def forward(self, x):
        return self.layers(x)


@every_learner
def test_a_run_can_ask_for_it(name):
    assert RunConfig(learner=name).learner == name


@every_learner
@settings(
    deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    tasks=st.integers(1, 3),
    ways=st.integers(2, 6),
    shots=st.integers(1, 3),
    queries=st.integers(1, 3),
    channels=st.sampled_from([1, 3]),
    size=st.integers(4, 20),
)
def test_any_geometry_and_size_works(
    name, make_tasks, tasks, ways, shots, queries, channels, size, small_learner
):
    learner = small_learner(name, ways, size)
    outcome = learner(make_tasks(tasks, ways, shots, queries, channels, size))
    assert outcome.loss.shape == outcome.importance.shape == outcome.accuracy().shape == (tasks,)
    assert outcome.logits.shape == (tasks, ways * queries, ways)
    assert outcome.embedding.shape == (tasks, learner.feature_size())
    assert not outcome.embedding.requires_grad
    assert not outcome.importance.requires_grad
    outcome.loss.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learner.parameters())


@every_learner
@both_normalisations
@pytest.mark.parametrize("training", [True, False])
def test_a_task_does_not_feel_its_neighbours(
    name, normalisation, training, make_tasks, small_learner
):
    learner = small_learner(name, normalisation=normalisation).double().train(training)
    tasks = make_tasks(tasks=4)
    with torch.no_grad():
        together = learner(tasks)
        alone = [learner(tasks[t : t + 1]) for t in range(4)]
    for t in range(4):
        torch.testing.assert_close(together.loss[t], alone[t].loss[0])
        torch.testing.assert_close(together.logits[t], alone[t].logits[0])
        torch.testing.assert_close(together.embedding[t], alone[t].embedding[0])


@every_learner
@both_normalisations
def test_tasks_stay_apart_in_a_backbone_of_ones_own(name, normalisation, make_tasks, small_learner):
    if (name, normalisation) == ("maml", "running"):
        with pytest.raises(UsageError, match="normalisation='batch'"):
            small_learner(name, backbone=Plain(), filters=None, normalisation=normalisation)
        return
    backbone = Plain()
    learner = small_learner(
        name, backbone=backbone, filters=None, normalisation=normalisation
    ).double()
    tasks = make_tasks(tasks=3)
    together = learner(tasks).loss
    assert torch.equal(backbone.layers[1].running_mean, torch.zeros(4))
    alone = torch.cat([learner(tasks[t : t + 1]).loss for t in range(3)])
    torch.testing.assert_close(together, alone)


@every_learner
@pytest.mark.parametrize("value", [0, 255])
def test_blank_images_give_a_finite_loss_and_gradient(name, value, make_tasks, small_learner):
    learner = small_learner(name)
    tasks = make_tasks()
    outcome = learner(TaskBatch(torch.full_like(tasks.images, value), tasks.geometry))
    outcome.loss.sum().backward()
    assert all(p.grad.isfinite().all() for p in learner.parameters())
    # One answer for every query: nothing beats an even guess among the classes.
    assert outcome.loss.isfinite().all()
    assert outcome.loss.min() >= math.log(tasks.geometry.ways) - 1e-5


@every_learner
def test_grey_is_the_same_as_three_equal_channels(name, make_tasks, small_learner):
    learner = small_learner(name)
    grey = make_tasks(channels=1)
    colour = TaskBatch(grey.images.repeat(1, 1, 3, 1, 1), grey.geometry)
    torch.testing.assert_close(learner(grey).loss, learner(colour).loss, rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "maml"])
def test_importance_is_the_norm_of_the_gradient_at_the_embeddings(name, make_tasks, small_learner):
    learner = small_learner(name).double()
    kept = {}
    compute = learner.features
    learner.features = lambda *images: kept.setdefault("features", compute(*images))
    outcome = learner(make_tasks())
    (gradient,) = torch.autograd.grad(outcome.loss.sum(), kept["features"])
    assert gradient.abs().max() > 0
    torch.testing.assert_close(outcome.importance, gradient.flatten(1).norm(dim=1))


def test_importance_of_maml_is_the_gradient_at_the_adapted_query_embeddings(
    make_tasks, small_learner
):
    learner = small_learner("maml").double()
    kept = []
    compute = learner._features
    learner._features = lambda *parts: kept.append(compute(*parts)) or kept[-1]
    outcome = learner(make_tasks())
    (gradient,) = torch.autograd.grad(outcome.loss.sum(), kept[-1])  # the last pass is the queries'
    torch.testing.assert_close(outcome.importance, gradient.flatten(1).norm(dim=1))


@every_learner
def test_without_gradients_there_is_no_importance(name, make_tasks, small_learner):
    with torch.no_grad():
        assert small_learner(name)(make_tasks()).importance.isnan().all()


@every_learner
def test_a_task_has_its_importance_when_the_backbone_is_frozen(name, make_tasks, small_learner):
    learner = small_learner(name)
    moving = learner(make_tasks()).importance
    learner.backbone.requires_grad_(False)
    frozen = learner(make_tasks()).importance
    assert (frozen > 0).all()
    if name != "maml":  # whose inner steps then leave the backbone as it is
        torch.testing.assert_close(frozen, moving)


@every_learner
def test_task_gradients_equal_one_backward_a_task(name, make_tasks, small_learner):
    learner = small_learner(name, normalisation="running").double()
    tasks = make_tasks()
    averages = {k: v.clone() for k, v in learner.state_dict().items()}
    gradients = task_gradients(learner, tasks)
    assert all(torch.equal(v, averages[k]) for k, v in learner.state_dict().items())
    assert all(p.grad is None for p in learner.parameters())
    for t in range(3):
        learner.zero_grad()
        learner(tasks).loss[t].backward()  # in the company of the others: they do not matter
        plain = torch.cat([p.grad.flatten() for p in learner.parameters()])
        torch.testing.assert_close(gradients[t], plain)


@every_learner
def test_the_same_seed_gives_the_same_weights_whatever_was_drawn_before(name, small_learner):
    first = small_learner(name).state_dict()
    torch.rand(3)
    second = small_learner(name).state_dict()
    assert all(torch.equal(first[k], second[k]) for k in first)
    options = {"image_size": 16, "ways": 3, "filters": 4}
    other = make_learner(name, generator=1, **options).state_dict()
    assert any(not torch.equal(first[k], other[k]) for k in first)
    drawn = torch_generator(0, Purpose.WEIGHTS)
    handed = make_learner(name, generator=drawn, **options)
    assert all(torch.equal(first[k], v) for k, v in handed.state_dict().items())


@pytest.mark.slow
@every_learner
def test_training_on_a_task_lowers_its_loss(name, make_tasks, small_learner):
    learner = small_learner(name)
    tasks = make_tasks()
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        loss = learner(tasks).loss.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
