"""NaN and infinity stop a run at once, the weights as they were, or are skipped and counted."""

import json
import math
from dataclasses import replace

import pytest
import torch

from metadrift import ContinualMetaLearner, registry
from metadrift.cli import main
from metadrift.distributed.group import Group
from metadrift.errors import MetadriftError
from metadrift.methods.base import NonFiniteError
from metadrift.runs.checkpoint import checkpoints, load_checkpoint
from metadrift.runs.config import RunConfig, to_toml
from metadrift.runs.loop import _Run, start
from metadrift.runs.record import read_lines
from metadrift.tasks import TaskBatch, TaskGeometry
from tiny_runs import assert_same_run, write_benchmark

METHODS = registry.built_in("methods")


def weights(run):
    return {name: value.clone() for name, value in run.parts.learner.state_dict().items()}


def run_to_the_error(config, folder, spoil_at, spoil):
    """Make the run, spoil its learner before a step, and give the weights before it and after."""
    folder.mkdir()
    run, kept = _Run(config, folder, True, Group(), ()), []
    step = run._one_step

    def one_step(stream):
        if run.state.step == spoil_at:
            spoil(run.parts.learner)
        kept.append(weights(run))
        step(stream)

    run._one_step = one_step
    with pytest.raises(MetadriftError) as error:
        run.finish()
    return str(error.value), kept[-1], weights(run)


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def infinite_gradients(learner):
    for parameter in learner.parameters():
        parameter.register_hook(lambda gradient: gradient * math.inf)


def nan_loss(learner):
    """The loss of every task becomes NaN, without touching a weight."""

    def poison(_, __, outcome):
        return replace(outcome, loss=outcome.loss * math.nan)

    learner.register_forward_hook(poison)


@pytest.mark.parametrize("method", METHODS)
def test_an_infinite_gradient_stops_the_run_and_leaves_the_weights(method, config, tmp_path):
    config = replace(config, method=method, stage_tasks=0)
    said, before, after = run_to_the_error(config, tmp_path / "run", 5, infinite_gradients)
    # MER reads its numbers after all of its inner steps, the later ones from ruined weights.
    assert ("the loss became nan" if method == "mer" else "a gradient became") in said
    assert "at step 5 with learning rate 0.001; the weights were not changed" in said
    assert f"the last good checkpoint is {tmp_path / 'run' / 'checkpoints' / 'step-3'}" in said
    assert same(before, after)


@pytest.mark.parametrize("learner", ["protonet", "anil"])
@pytest.mark.parametrize("method", ["sequential", "mer", "m2d3-pets"])
def test_a_nan_loss_stops_the_run_and_leaves_the_weights_and_averages(
    method, learner, config, tmp_path
):
    learn = replace(config.learn, normalisation="running")
    config = replace(config, method=method, learner=learner, learn=learn, stage_tasks=0)
    said, before, after = run_to_the_error(config, tmp_path / "run", 1, nan_loss)
    assert "the loss became nan at step 1" in said
    assert "there is no checkpoint yet" in said
    assert any("running_mean" in name for name in before)
    assert same(before, after)


def test_a_method_of_several_inner_steps_is_put_back_to_where_the_step_began(config, tmp_path):
    high = replace(config.baseline, mer_alpha=1e38)
    config = replace(config, method="mer", baseline=high, stage_tasks=0)
    said, before, after = run_to_the_error(config, tmp_path / "run", -1, None)
    assert "with learning rate" in said
    assert all(bool(torch.isfinite(value).all()) for value in after.values())
    assert same(before, after)


@pytest.mark.parametrize("lr", [1e20, 1e30])
@pytest.mark.parametrize("learner", ["protonet", "anil", "maml", "ridge"])
def test_a_learning_rate_far_too_high_ends_in_a_sentence(learner, lr, config, tmp_path):
    config = replace(config, learner=learner, lr=lr)
    with pytest.raises(MetadriftError, match=r"became (-?inf|nan) at step \d with learning rate"):
        start(config, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_of_several_processes_the_leading_one_tells_about_nan(
    rank, lines, config, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RANK", rank)  # as torchrun does
    (tmp_path / "c.toml").write_text(to_toml(replace(config, lr=1e30)))
    words = ["run", "--config", str(tmp_path / "c.toml"), "--out", str(tmp_path), "--name", "run"]
    assert main([*words, "--json"]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == lines


@pytest.mark.parametrize("lr", [0.0, -1.0, math.nan, math.inf, 1e38])
def test_a_learning_rate_that_is_none_is_refused(lr):
    with pytest.raises(MetadriftError, match="--lr must be above 0"):
        RunConfig(lr=lr)


def test_skipped_steps_are_counted_and_the_numbers_stay_finite(config, tmp_path):
    config = replace(config, method="reservoir", on_nan="skip")
    folder = tmp_path / "run"
    folder.mkdir()
    run = _Run(config, folder, True, Group(), ())
    step, parameter = run.parts.method.step, next(run.parts.learner.parameters())

    def sometimes(tasks):
        if run.state.step in (2, 7, 8):
            with torch.no_grad():
                parameter.fill_(math.nan)
        return step(tasks)

    run.parts.method.step = sometimes
    summary = run.finish()
    assert summary["skipped_steps"] == 3
    assert math.isfinite(summary["accuracy"]["mean"])
    events = read_lines(folder / "events.jsonl")
    assert [e["step"] for e in events if e["event"] == "skipped"] == [2, 7, 8]
    for path in checkpoints(folder / "checkpoints"):
        for name, value in load_checkpoint(path)["method"]["learner"].items():
            assert bool(torch.isfinite(value).all()), name


def test_the_count_of_skipped_steps_survives_a_kill(config, driver, tmp_path):
    high = replace(config.baseline, mer_alpha=1e38)
    config = replace(config, method="mer", baseline=high, on_nan="skip")
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "killed", ["killed_in_step", 8])[0] == -9
    assert driver.resume(tmp_path, "killed")[0] == 0
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text())
    assert summary["skipped_steps"] > 0


@pytest.fixture
def two_stays(tiny_benchmark):
    return write_benchmark(tiny_benchmark.with_name("two.toml"), {"dark": 40, "bright": 25})


def dates(folder):
    changes = [e for e in read_lines(folder / "events.jsonl") if e["event"] == "change"]
    return [(e["started_at"], e["at_step"]) for e in changes]


@pytest.mark.parametrize("skipped", [range(22, 32), [30], range(36, 40)])
def test_skipped_steps_do_not_shift_the_dates_of_changes(
    skipped, config, two_stays, driver, tmp_path
):
    config = replace(config, benchmark=str(two_stays), on_nan="skip", stage_tasks=0)
    config = replace(config, detection=replace(config.detection, delta=6.0))
    assert driver.run(tmp_path, config, "plain")[0] == 0
    ((began, noticed),) = dates(tmp_path / "plain")
    assert began == 40
    code, said = driver.run(tmp_path, config, "run", ["nan_in_steps", [*skipped, -1]])
    assert code == 0, said
    assert dates(tmp_path / "run") == [(began, noticed)]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["skipped_steps"] == len(skipped)
    assert summary["detection"]["mean_delay"] == noticed - 40


@pytest.mark.parametrize("method", ["balanced-oracle", "m2d3-pets"])
def test_skipped_steps_shift_neither_the_oracle_nor_what_memory_is_said_to_hold(
    method, config, driver, tmp_path
):
    """The change at step 6 is among the skipped ones; that at step 11 is not."""
    config = replace(config, method=method, labels="oracle", on_nan="skip")
    skipped = [2, 3, 5, 6]
    code, said = driver.run(tmp_path, config, "run", ["nan_in_steps", [*skipped, -1]])
    assert code == 0, said
    assert dates(tmp_path / "run") == [(7, 7), (11, 11)]
    last = read_lines(tmp_path / "run" / "metrics.jsonl")[-1]
    assert list(last["memory"].values()) == list(last["memory_true"].values())
    # And a kill in between changes nothing.
    code, said = driver.run(tmp_path, config, "killed", ["nan_in_steps", [*skipped, 8]])
    assert code == -9, said
    code, said = driver.resume(tmp_path, "killed", ["nan_in_steps", [*skipped, -1]])
    assert code == 0, said
    assert_same_run(tmp_path / "run", tmp_path / "killed")


def test_a_step_after_which_the_weights_overflowed_is_still_counted(config, tmp_path):
    """Detector and memory have seen its batch, so it shifts no clock, and its change is told."""
    config = replace(config, method="balanced-oracle", on_nan="skip", stage_tasks=0)
    folder = tmp_path / "run"
    folder.mkdir()
    run = _Run(config, folder, True, Group(), ())
    step, parameter = run.parts.method.step, next(run.parts.learner.parameters())

    def overflows(tasks):
        record = step(tasks)
        if run.state.step in (4, 6):
            with torch.no_grad():
                parameter.fill_(math.inf)
        return record

    run.parts.method.step = overflows
    assert run.finish()["skipped_steps"] == 2
    assert dates(folder) == [(6, 6), (11, 11)]


def test_vectors_that_hold_nan_reach_neither_the_weights_nor_memory():
    geometry = TaskGeometry(2, 1, 1)
    model = ContinualMetaLearner("m2d3-pets", geometry=geometry, example=(8,), memory=4)
    model.observe(TaskBatch(torch.randn(1, 4, 8), geometry))
    before = {name: value.clone() for name, value in model.learner.state_dict().items()}
    with pytest.raises(NonFiniteError):
        model.observe(TaskBatch(torch.full((1, 4, 8), math.nan), geometry))
    assert same(before, model.learner.state_dict())
    assert len(model.method.memory) == 1
