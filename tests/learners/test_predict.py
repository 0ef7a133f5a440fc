"""The answers are those of training where shapes agree, and sensible where they do not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.learners import MetaLearner, class_means, make_learner
from metadrift.learners.backbones import ConvNet
from metadrift.live.classification import logits_of
from metadrift.tasks import TaskBatch, TaskGeometry

LEARNERS = ("protonet", "ridge", "anil", "maml")
GEOMETRY = TaskGeometry(ways=3, shots=2, queries=4)


def made(name, normalisation="batch", ways=3):
    generator = torch.Generator().manual_seed(3)
    learner = make_learner(
        name, image_size=16, ways=ways, filters=6, generator=generator, normalisation=normalisation
    )
    with torch.no_grad():
        for parameter in learner.parameters():  # not at a special point, such as a zero bias
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
        for norm in [m for m in learner.modules() if getattr(m, "running_mean", None) is not None]:
            norm.running_mean += 0.1
    return learner


def tasks_of(seed=0, channels=3):
    images = torch.randint(
        0,
        256,
        (1, GEOMETRY.images_per_task, channels, 16, 16),
        dtype=torch.uint8,
        generator=torch.Generator().manual_seed(seed),
    )
    return TaskBatch(images, GEOMETRY)


@pytest.mark.parametrize("normalisation", ["batch", "running"])
@pytest.mark.parametrize("name", LEARNERS)
def test_all_together_the_answers_are_those_of_a_task(name, normalisation):
    learner, tasks = made(name, normalisation), tasks_of()
    learner.eval()
    expected = learner(tasks).logits[0].detach()
    found = logits_of(
        learner, tasks.support[0], tasks.support_labels, tasks.query[0], together=True
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LEARNERS)
def test_tasks_may_share_their_support(name):
    learner, tasks = made(name), tasks_of()
    query = tasks.query.expand(2, -1, -1, -1, -1).clone()
    query[1] = 255 - query[1]
    shared = learner.predict(tasks.support, tasks.support_labels, query)
    each = [learner.predict(tasks.support, tasks.support_labels, q[None])[0] for q in query]
    torch.testing.assert_close(shared, torch.stack(each), rtol=1e-4, atol=1e-4)


class Nearest(MetaLearner):
    """A custom learner: nothing but its rule."""

    def logits(self, support, labels, query, ways):
        return -torch.cdist(query, class_means(support, labels, ways))


def test_a_custom_learner_needs_only_its_rule():
    backbone = ConvNet(2, 4, "batch", torch.Generator().manual_seed(0))
    learner, tasks = Nearest(backbone, 16, "batch"), tasks_of()
    outcome = learner(tasks)
    assert outcome.loss.isfinite().all()
    support, labels, query = tasks.support[0], tasks.support_labels, tasks.query[0]
    together = logits_of(learner, support, labels, query, together=True)
    torch.testing.assert_close(together, outcome.logits[0].detach())
    assert logits_of(learner, support[:5], torch.tensor([0, 1, 1, 2, 3]), query).shape == (12, 4)


def test_a_learner_without_a_rule_says_what_is_missing():
    learner = MetaLearner(ConvNet(2, 4, "batch", torch.Generator().manual_seed(0)), 16, "batch")
    with pytest.raises(NotImplementedError, match="MetaLearner needs a method logits"):
        learner(tasks_of())


@pytest.mark.parametrize("name", LEARNERS)
def test_alone_an_answer_does_not_depend_on_the_other_queries(name):
    learner, tasks = made(name), tasks_of()
    support, labels, query = tasks.support[0], tasks.support_labels, tasks.query[0]
    every = logits_of(learner, support, labels, query)
    torch.testing.assert_close(logits_of(learner, support, labels, query[5:6]), every[5:6])
    alone = logits_of(learner, support, labels, query[5:6], together=True)
    torch.testing.assert_close(alone, every[5:6])
    assert not torch.allclose(logits_of(learner, support, labels, query, together=True), every)


@pytest.mark.parametrize("name", LEARNERS)
def test_with_running_averages_alone_and_together_are_the_same(name):
    learner, tasks = made(name, "running"), tasks_of()
    given = (learner, tasks.support[0], tasks.support_labels, tasks.query[0])
    torch.testing.assert_close(logits_of(*given), logits_of(*given, together=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@settings(deadline=None, max_examples=10)
@given(shots=st.lists(st.integers(1, 4), min_size=2, max_size=7), queries=st.integers(1, 3))
def test_any_ways_and_shots_are_answered(name, shots, queries):
    learner = made(name)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(
        0, 256, (sum(shots) + queries, 1, 16, 16), dtype=torch.uint8, generator=generator
    )
    labels = torch.arange(len(shots)).repeat_interleave(torch.tensor(shots))
    n = sum(shots)
    for together in (False, True):
        found = logits_of(learner, images[:n], labels, images[n:], together=together)
        assert found.shape == (queries, len(shots))
        assert torch.isfinite(found).all()
        order = torch.randperm(n, generator=generator)  # the order of the support means nothing
        again = logits_of(learner, images[order], labels[order], images[n:], together=together)
        torch.testing.assert_close(again, found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("ways", [3, 5])
def test_the_order_of_classes_does_not_matter_beyond_the_trained_ways(name, ways):
    if name in ("anil", "maml") and ways == 3:
        pytest.skip("the trained head has a row of its own for each class")
    learner = made(name)
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (ways + 2, 3, 16, 16), dtype=torch.uint8, generator=generator)
    order = torch.randperm(ways, generator=generator)
    straight = logits_of(learner, images[:ways], torch.arange(ways), images[ways:])
    turned = logits_of(learner, images[:ways][order], torch.arange(ways), images[ways:])
    torch.testing.assert_close(turned, straight[:, order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_picture_given_twice_counts_once(name):
    # Statistics aside (running averages), doubling the pictures of one class changes nothing.
    learner, tasks = made(name, "running"), tasks_of()
    support, labels, query = tasks.support[0], tasks.support_labels, tasks.query[0]
    twice = torch.cat([support, support[:2]])
    found = logits_of(learner, twice, torch.cat([labels, labels[:2]]), query)
    usual = logits_of(learner, support, labels, query)
    if name == "ridge":  # the ridge holds back a single picture more than a repeated one
        assert (found.argmax(1) == usual.argmax(1)).float().mean() > 0.8
    elif name == "maml":  # its inner steps normalise by the support pictures
        assert torch.isfinite(found).all()
    else:
        torch.testing.assert_close(found, usual, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_learner_stays_as_it_was(name):
    learner, tasks = made(name), tasks_of()
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    learner.train()
    logits_of(learner, tasks.support[0], tasks.support_labels, tasks.query[0])
    assert learner.training
    assert all(torch.equal(before[key], value) for key, value in learner.state_dict().items())
    assert all(parameter.grad is None for parameter in learner.parameters())
