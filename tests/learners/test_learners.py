"""What holds for single learners: depths, rates, ridge regression, wrong use."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from metadrift.errors import MetadriftError, UsageError
from metadrift.learners import make_learner, pick_device
from metadrift.learners.backbones import blocks_for
from metadrift.learners.ridge import ridge_predictions


def test_running_averages_are_used_in_evaluation_mode_only(make_tasks, small_learner):
    learner = small_learner("protonet", normalisation="running")
    tasks = make_tasks()
    training = learner(tasks).loss
    learner.eval()
    before = {k: v.clone() for k, v in learner.state_dict().items()}
    evaluated = learner(tasks).loss
    assert not torch.allclose(training, evaluated)
    assert all(torch.equal(v, before[k]) for k, v in learner.state_dict().items())
    for name, value in learner.state_dict().items():
        if "running_mean" in name:
            value += 1.0
    assert not torch.allclose(learner(tasks).loss, evaluated)
    torch.testing.assert_close(learner.train()(tasks).loss, training)


def test_ridge_predictions_equal_the_primal_solution():
    generator = torch.Generator().manual_seed(0)
    support = torch.randn((2, 4, 7), dtype=torch.float64, generator=generator)
    query = torch.randn((2, 3, 7), dtype=torch.float64, generator=generator)
    targets = torch.randn((4, 2), dtype=torch.float64, generator=generator)
    predicted = ridge_predictions(support, targets, query, torch.tensor(0.3, dtype=torch.float64))
    for t in range(2):
        X = support[t]
        primal = torch.linalg.solve(X.T @ X + 0.3 * torch.eye(7, dtype=X.dtype), X.T @ targets)
        torch.testing.assert_close(predicted[t], query[t] @ primal)


def test_the_papers_depths(small_learner):
    depths = [blocks_for(size, 5) for size in (84, 64, 32, 28, 8, 2)]
    assert depths == [5, 5, 4, 4, 3, 1]
    assert blocks_for(84, 4) == 4
    assert len(small_learner("protonet", size=84).backbone.blocks) == 5
    assert len(small_learner("anil", size=84).backbone.blocks) == 4
    wide = make_learner("protonet", image_size=28, ways=5, generator=0)
    assert wide.backbone.blocks[0].conv.out_channels == 64
    assert make_learner("anil", image_size=28, ways=5, generator=0).head.in_features == 48


def test_the_inner_learning_rate_follows_the_size_of_the_features(small_learner):
    rates = [small_learner("anil", size=size, filters=48).inner_lr for size in (28, 32, 84)]
    assert rates == [0.1, 5 / 192, 5 / 1200]
    assert small_learner("maml", inner_lr=0.4).inner_lr == 0.4


def test_wrong_use_is_told(make_tasks, small_learner):
    with pytest.raises(UsageError, match="protonet, anil, maml, ridge"):
        small_learner("lstm")
    with pytest.raises(UsageError, match="filters"):
        small_learner("protonet", backbone=nn.Flatten(), filters=8)
    with pytest.raises(UsageError, match="inner_steps"):
        small_learner("protonet", inner_steps=3)
    with pytest.raises(UsageError, match="batch, running"):
        small_learner("protonet", normalisation="layer")
    with pytest.raises(UsageError, match="too small"):
        small_learner("protonet", size=1)
    with pytest.raises(MetadriftError, match="16 px, not 12 x 12"):
        small_learner("protonet")(make_tasks(size=12))
    with pytest.raises(MetadriftError, match="uint8"):
        small_learner("protonet").features(torch.full((1, 4, 3, 16, 16), float("nan")))


def test_devices_are_named_or_found():
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(UsageError, match="auto, cpu, cuda or mps"):
        pick_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no cuda device"):
            pick_device("cuda")
