"""A moving average of the weights: evaluated, saved and classified with, never trained from."""

from dataclasses import replace

import pytest
import torch

import metadrift
from metadrift import ContinualMetaLearner, TaskGeometry
from metadrift.cli import main
from metadrift.evaluation.protocol import evaluate
from metadrift.methods.average import WeightAverage
from metadrift.runs.build import build
from metadrift.runs.checkpoint import checkpoints, load_checkpoint
from metadrift.runs.config import LearnerConfig, RunConfig
from metadrift.runs.folder import read_settings
from metadrift.runs.loop import start

LEARN = LearnerConfig(filters=4, normalisation="running", average=0.9)


@pytest.fixture
def config(tiny_config):
    return replace(tiny_config, scale=0.2, test_tasks=20, stage_tasks=0, lr=0.01, learn=LEARN)


def saved(folder):
    return load_checkpoint(checkpoints(folder / "checkpoints")[-1])["method"]


def test_a_run_trains_as_without_the_average_and_is_scored_with_it(config, tmp_path):
    summary = start(config, tmp_path / "with", quiet=True)
    last = replace(config, learn=replace(LEARN, average=0.0))
    other = start(last, tmp_path / "without", quiet=True)
    with_it, without = saved(tmp_path / "with"), saved(tmp_path / "without")
    assert "average" not in without
    for name, weight in without["learner"].items():
        assert torch.equal(weight, with_it["learner"][name])
        assert not torch.equal(weight, with_it["average"]["learner"][name])
    model = metadrift.load(tmp_path / "with")
    for name, weight in model.learner.state_dict().items():
        assert torch.equal(weight, with_it["average"]["learner"][name])
    parts = build(read_settings(tmp_path / "with"), tmp_path)
    scored = evaluate(model.learner, parts.tests, tasks=20, seed=0)
    rows = summary["accuracy"]["per_domain"]
    assert {name: row["mean"] for name, row in rows.items()} == {
        name: found.mean for name, found in scored.items()
    }
    assert rows != other["accuracy"]["per_domain"]


@pytest.mark.parametrize("method", ["joint", "independent", "m2d3-pets", "mer"])
def test_every_method_and_stream_can_have_it(method, config, tmp_path):
    start(replace(config, method=method), tmp_path / "run", quiet=True)
    homes = [path.parent for path in tmp_path.rglob("checkpoints")]
    assert len(homes) == (3 if method == "independent" else 1)
    assert all("average" in saved(home) for home in homes)


def test_it_is_the_recursion_that_its_docstring_says(small_learner):
    learner = small_learner("protonet", normalisation="running")
    average = WeightAverage(learner, 0.6)
    expected = None
    for n in range(30):
        with torch.no_grad():
            for value in (*learner.parameters(), *learner.buffers()):
                value.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(n)))
        average.update(learner)
        now = learner.state_dict()
        keep = min(0.6, (1 + n) / (10 + n)) if n else 0.0
        expected = {
            name: value.clone() if not n else keep * expected[name] + (1 - keep) * value
            for name, value in now.items()
        }
    for name, value in average.learner.state_dict().items():
        torch.testing.assert_close(value, expected[name])


def test_a_live_learner_answers_with_it_and_goes_on_from_it(make_tasks, tmp_path):
    def made():
        return ContinualMetaLearner(
            "reservoir",
            geometry=TaskGeometry(3, 2, 2),
            image_size=16,
            tasks_per_step=3,
            memory=4,
            device="cpu",
            config=RunConfig(learn=LEARN),
        )

    whole, first = made(), made()
    for seed in range(12):
        whole.observe(make_tasks(seed=seed))
    for seed in range(7):
        first.observe(make_tasks(seed=seed))
    second = ContinualMetaLearner.load(first.save(tmp_path / "saved"), device="cpu")
    for seed in range(7, 12):
        second.observe(make_tasks(seed=seed))
    one, two = whole.method.evaluated.state_dict(), second.method.evaluated.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert whole.method.evaluated is not whole.learner
    loaded = metadrift.load(whole.save(tmp_path / "whole")).learner.state_dict()
    assert all(torch.equal(one[name], loaded[name]) for name in one)


def test_a_share_of_one_or_more_is_refused(capsys):
    assert main(["run", "--learn.average", "1"]) == 2
    assert "--learn.average must be 0 or more and below 1, not 1.0" in capsys.readouterr().err
