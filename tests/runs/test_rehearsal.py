"""A run with --rehearse: scored with its copies, and resumed to the same bytes."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

import metadrift
from metadrift.cli import main
from metadrift.errors import MetadriftError, UsageError
from metadrift.evaluation.protocol import evaluate
from metadrift.methods.replaying import ReplayingMethod
from metadrift.methods.specialists import Specialists
from metadrift.runs.build import build
from metadrift.runs.checkpoint import load_checkpoint, save_checkpoint
from metadrift.runs.folder import read_settings
from metadrift.runs.loop import InterruptedRunError, go_on, start
from metadrift.runs.record import read_lines
from tiny_runs import assert_same_run


@pytest.fixture
def config(tiny_config):
    kept = replace(tiny_config, method="m2d3-pets", labels="oracle", rehearse=0.2, lr=0.0003)
    return replace(kept, test_tasks=20, stage_tasks=5)


def events(folder, kind):
    return [line for line in read_lines(folder / "events.jsonl") if line["event"] == kind]


def test_the_final_accuracy_is_that_of_the_copies_and_the_stages_are_the_learners(config, tmp_path):
    summary = start(config, tmp_path / "with", quiet=True)
    plain = start(replace(config, rehearse=0.0), tmp_path / "without", quiet=True)
    assert [e["copies"] for e in events(tmp_path / "with", "rehearsed")] == [3]
    assert [e["steps"] for e in events(tmp_path / "with", "rehearsed")] == [24]
    before = summary["before_rehearsal"]["per_domain"]
    assert before == plain["accuracy"]["per_domain"] != summary["accuracy"]["per_domain"]
    assert summary["stages"] == plain["stages"]
    assert plain["before_rehearsal"] is None
    model = metadrift.load(tmp_path / "with")
    assert isinstance(model.learner, Specialists)
    parts = build(read_settings(tmp_path / "with"), tmp_path)
    scored = evaluate(model.learner, parts.tests, tasks=20, seed=0)
    rows = summary["accuracy"]["per_domain"]
    assert {name: row["mean"] for name, row in rows.items()} == {
        name: found.mean for name, found in scored.items()
    }


def test_a_run_stopped_in_its_rehearsal_resumes_to_the_same_bytes(config, tmp_path, monkeypatch):
    start(config, tmp_path / "whole", quiet=True)
    plain, calls = ReplayingMethod.learn, 0

    def stop_in_the_rehearsal(self, tasks, replays):
        nonlocal calls
        calls += not replays and len(tasks) > 2
        if calls == 10:
            signal.raise_signal(signal.SIGTERM)
        return plain(self, tasks, replays)

    monkeypatch.setattr(ReplayingMethod, "learn", stop_in_the_rehearsal)
    with pytest.raises(InterruptedRunError, match="stopped at step 120"):
        start(config, tmp_path / "stopped", quiet=True)
    monkeypatch.undo()
    go_on(tmp_path / "stopped", quiet=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_run_stopped_after_its_rehearsal_does_not_rehearse_again(config, tmp_path, monkeypatch):
    start(config, tmp_path / "whole", quiet=True)
    home = tmp_path / "stopped"

    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("metadrift.runs.loop.summarise", fail)
    with pytest.raises(KeyboardInterrupt):
        start(config, home, quiet=True)
    monkeypatch.undo()
    go_on(home, quiet=True)
    assert len(events(home, "rehearsed")) == 1
    assert_same_run(tmp_path / "whole", home)


def test_a_live_learner_goes_on_from_it_and_rehearses_anew(config, tmp_path):
    live = metadrift.ContinualMetaLearner.from_run(_detecting(config, tmp_path), device="cpu")
    assert isinstance(live.method.evaluated, Specialists)
    assert live.rehearse(0) == 0
    assert not isinstance(live.method.evaluated, Specialists)
    assert live.rehearse(12) >= 1
    again = metadrift.ContinualMetaLearner.load(live.save(tmp_path / "saved"))
    sampler = build(read_settings(tmp_path / "detecting"), tmp_path).tests["middle"]
    tasks = sampler.draw(3, np.random.default_rng(0))
    assert torch.equal(live.predict(tasks), again.predict(tasks))


def _detecting(config, folder):
    """A run without true labels, which a live learner cannot have."""
    start(replace(config, labels="detected"), folder / "detecting", quiet=True)
    return folder / "detecting"


@pytest.mark.parametrize("method", ["sequential", "joint", "independent"])
def test_what_has_no_memory_refuses_it(method, config):
    with pytest.raises(UsageError, match=f"{method} has no memory, so --rehearse would do nothing"):
        replace(config, method=method, labels="detected")


def test_the_command_says_what_the_accuracy_was_before(tiny_benchmark, tmp_path, capsys):
    words = ["run", "--benchmark", str(tiny_benchmark), "--method", "reservoir"]
    words += ["--rehearse", "0.1"]
    words += ["--ways", "3", "--queries", "2", "--test-tasks", "4", "--learn.filters", "4"]
    words += ["--out", str(tmp_path), "--name", "run", "--threads", "1"]
    assert main(words) == 0
    assert "mean before the rehearsal: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["copies"].pop("1"),
        lambda state: state["router"].pop("means"),
        lambda state: state["router"].update(means=np.zeros((2, 64))),
        lambda state: state["router"].update(inverse=np.zeros(3)),
        lambda state: state.update(copies=[]),
    ],
)
def test_copies_that_do_not_fit_are_answered_in_a_sentence(damage, config, tmp_path):
    start(config, tmp_path / "run", quiet=True)
    folder = tmp_path / "run" / "checkpoints"
    state = load_checkpoint(folder / "step-120")
    damage(state["method"]["specialists"])
    save_checkpoint(folder, 120, state)
    with pytest.raises(MetadriftError, match="does not fit the settings"):
        metadrift.load(tmp_path / "run")
