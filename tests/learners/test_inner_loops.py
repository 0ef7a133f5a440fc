"""ANIL and MAML against the same inner loop written plainly, one task at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from metadrift.errors import MetadriftError, UsageError
from metadrift.learners import make_learner

STEPS, RATE = 3, 0.2


class TwoLayers(nn.Module):  # a custom backbone
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return F.relu(self.norm(self.conv(x))).mean((2, 3))


def _learner(name, custom, first_order):
    learner = make_learner(
        name,
        image_size=8,
        ways=3,
        generator=0,
        backbone=TwoLayers() if custom else None,
        filters=None if custom else 4,
        inner_steps=STEPS,
        inner_lr=RATE,
        first_order=first_order,
    ).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in learner.parameters():
            p.add_(0.2 * torch.randn(p.shape, dtype=p.dtype, generator=generator))
    return learner


def _plain_features(weights, x, custom):
    def norm(x, at):
        weight, bias = weights[f"backbone.{at}.weight"], weights[f"backbone.{at}.bias"]
        return F.batch_norm(x, None, None, weight, bias, training=True)

    if custom:
        bias = weights["backbone.conv.bias"]
        x = F.conv2d(x, weights["backbone.conv.weight"], bias, stride=2)
        return F.relu(norm(x, "norm")).mean((2, 3))
    for b in range(3):
        x = F.conv2d(x, weights[f"backbone.blocks.{b}.conv.weight"], padding=1)
        x = F.max_pool2d(F.relu(norm(x, f"blocks.{b}.norm")), 2)
    return x.flatten(1)


def _plain_loss(name, learner, tasks, t, custom):
    weights = dict(learner.named_parameters())
    adapt = [n for n in weights if name == "maml" or n.startswith("head")]
    pixels = tasks.images[t].double() / 127.5 - 1
    n = len(tasks.support_labels)

    def logits(weights, features):
        return F.linear(features, weights["head.weight"], weights["head.bias"])

    shared = _plain_features(weights, pixels, custom)  # anil: support and query together
    for _ in range(STEPS):
        features = _plain_features(weights, pixels[:n], custom) if name == "maml" else shared[:n]
        loss = F.cross_entropy(logits(weights, features), tasks.support_labels)
        gradients = torch.autograd.grad(
            loss,
            [weights[n] for n in adapt],
            create_graph=not learner.first_order,
            retain_graph=True,
            allow_unused=True,
        )
        new = {
            n: weights[n] if g is None else weights[n] - RATE * g
            for n, g in zip(adapt, gradients, strict=True)
        }
        weights = weights | new
    features = _plain_features(weights, pixels[n:], custom) if name == "maml" else shared[n:]
    return F.cross_entropy(logits(weights, features), tasks.query_labels)


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("name", ["anil", "maml"])
def test_losses_and_gradients_equal_a_plain_loop(name, custom, first_order, make_tasks):
    learner = _learner(name, custom, first_order)
    tasks = make_tasks(tasks=3, ways=3, shots=2, queries=2, size=8)
    outcome = learner(tasks)
    parameters = list(learner.parameters())
    for t in range(3):
        plain = _plain_loss(name, learner, tasks, t, custom)
        torch.testing.assert_close(outcome.loss[t], plain, rtol=1e-9, atol=1e-9)
        ours = torch.autograd.grad(
            outcome.loss[t], parameters, retain_graph=True, materialize_grads=True
        )
        theirs = torch.autograd.grad(plain, parameters, materialize_grads=True)
        for a, b in zip(ours, theirs, strict=True):
            assert (a - b).norm() <= 1e-5 * b.norm() + 1e-12


@pytest.mark.parametrize("name", ["anil", "maml"])
def test_second_order_differs_from_first_order(name, make_tasks):
    tasks = make_tasks(ways=3, size=8)
    gradients = []
    for first_order in (False, True):
        learner = _learner(name, False, first_order)
        learner(tasks).loss.sum().backward()
        gradients.append(learner.backbone.blocks[0].conv.weight.grad)
    assert (gradients[0] - gradients[1]).norm() > 1e-3 * gradients[1].norm()


@pytest.mark.parametrize("name", ["anil", "maml"])
def test_the_inner_loop_runs_where_gradients_are_off(name, make_tasks):
    learner = _learner(name, False, False)
    tasks = make_tasks(ways=3, size=8)
    with torch.no_grad():
        off = learner(tasks)
    torch.testing.assert_close(off.loss, learner(tasks).loss.detach())
    assert not off.loss.requires_grad


@pytest.mark.parametrize("name", ["anil", "maml"])
def test_tasks_that_do_not_fit_the_head_are_refused(name, make_tasks):
    learner = _learner(name, False, False)
    with pytest.raises(MetadriftError, match="3 outputs and the tasks have 4 ways"):
        learner(make_tasks(ways=4, size=8))


def test_an_inner_loop_without_steps_is_refused():
    with pytest.raises(UsageError, match="inner_steps=0"):
        make_learner("anil", image_size=8, ways=3, generator=0, inner_steps=0)


def test_maml_with_running_averages_feeds_them_from_the_query_pass_only(make_tasks):
    learner = make_learner(
        "maml", image_size=8, ways=3, generator=0, filters=4, normalisation="running", inner_steps=1
    ).double()
    tasks = make_tasks(ways=3, size=8)
    first = learner.backbone.blocks[0]
    learner.inner_lr = 0.0  # nothing adapts: the query pass sees the starting weights
    learner(tasks)
    query = tasks.query.double() / 127.5 - 1
    z = F.conv2d(query.flatten(0, 1), first.conv.weight, padding=1)
    torch.testing.assert_close(first.norm.running_mean, 0.1 * z.mean((0, 2, 3)).detach())
    before = first.norm.running_mean.clone()
    learner.eval()
    learner(tasks)
    assert torch.equal(first.norm.running_mean, before)
