"""Callbacks: what they are told, and that the loggers of the package are made of them."""

import csv
import importlib.util
import json
import runpy
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from metadrift.errors import MetadriftError
from metadrift.runs.callbacks import Callback
from metadrift.runs.loop import go_on, start
from metadrift.runs.record import read_lines
from tiny_runs import assert_same_state

EXAMPLE = Path(__file__).parents[2] / "examples" / "wandb_logger.py"


@pytest.fixture
def config(tiny_config):
    few = replace(tiny_config, scale=0.2, test_tasks=4, stage_tasks=2)
    return replace(few, checkpoint_every=5, log_every=2)


class Told(Callback):
    def __init__(self, stop_at=None):
        self.begun, self.steps, self.stages, self.ends, self.stop_at = [], [], [], [], stop_at

    def on_begin(self, folder, settings, step):
        self.begun.append((folder.name, settings["method"], step))

    def on_step(self, line):
        self.steps.append(line["step"])
        if line["step"] == self.stop_at:
            raise MetadriftError("enough")

    def on_stage(self, step, accuracy, learner):
        self.stages.append((step, sorted(accuracy), learner.training))
        return {"tenth": step / 10}

    def on_end(self, summary):
        self.ends.append(summary)


def test_a_callback_is_told_of_steps_stages_and_the_end(config, tmp_path):
    told = Told()
    summary = start(config, tmp_path / "run", quiet=True, callbacks=[told])
    assert told.begun == [("run", "reservoir", 0)]
    assert told.steps == list(range(2, 25, 2))
    domains = ["bright", "dark", "middle"]
    assert told.stages == [(step, domains, True) for step in (8, 14, 24)]
    assert told.ends == [summary]
    events = read_lines(tmp_path / "run" / "events.jsonl")
    found = [event["measured"] for event in events if event["event"] == "evaluation"]
    assert found == [{"tenth": step / 10} for step in (8, 14, 24)]


def test_a_run_that_stops_says_so_and_is_resumed_with_its_callbacks(config, tmp_path):
    start(config, tmp_path / "whole", quiet=True)
    first, second = Told(stop_at=16), Told()
    with pytest.raises(MetadriftError, match="enough"):
        start(config, tmp_path / "run", quiet=True, callbacks=[first])
    assert first.ends == [None]
    summary = go_on(tmp_path / "run", quiet=True, callbacks=[second])
    assert second.begun == [("run", "reservoir", 15)]
    assert second.steps == [16, 18, 20, 22, 24]
    assert second.ends == [summary]
    assert_same_state(tmp_path / "whole", tmp_path / "run")


class Broken(Callback):
    def on_step(self, line):
        raise RuntimeError("of the callback")


def test_an_error_of_a_callback_in_a_new_run_is_raised_as_it_is(config, tmp_path):
    with pytest.raises(RuntimeError, match="of the callback"):
        start(config, tmp_path / "new", quiet=True, callbacks=[Broken()])


def test_an_error_of_many_lines_in_a_resumed_run_is_one_sentence(config, tmp_path):
    class Wordy(Callback):
        def on_step(self, line):
            raise ValueError("the first line\nand a second one")

    with pytest.raises(MetadriftError, match="enough"):
        start(config, tmp_path / "run", quiet=True, callbacks=[Told(stop_at=16)])
    with pytest.raises(MetadriftError, match=r"ValueError: the first line\. ") as caught:
        go_on(tmp_path / "run", quiet=True, callbacks=[Wordy()])
    assert "second" not in str(caught.value)


def test_every_run_of_independent_training_is_told(config, tmp_path):
    told = Told()
    config = replace(config, method="independent")
    start(config, tmp_path / "run", quiet=True, callbacks=[told])
    assert sorted(name for name, _, _ in told.begun) == ["bright", "dark", "middle"]
    assert len(told.ends) == 3


def test_the_metrics_are_written_as_a_table_too(config, tmp_path):
    start(replace(config, csv=True), tmp_path / "run", quiet=True)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == [line["loss"] for line in lines]
    assert [float(row["memory/0"]) for row in rows] == [line["memory"]["0"] for line in lines]
    assert "sampling/0" in rows[0]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="the real one is there")
def test_the_example_for_weights_and_biases_sends_curves_and_numbers(tmp_path, monkeypatch):
    """wandb is not among our dependencies: a stand-in with its interface takes the calls."""
    sent = {"log": [], "summary": {}}

    class Run:
        summary = sent["summary"]

        def log(self, numbers, step):
            json.dumps(numbers)
            sent["log"].append((step, sorted(numbers)))

        def finish(self, exit_code):
            sent["exit"] = exit_code

    fake = types.ModuleType("wandb")
    fake.init = lambda **options: (sent.update(options), Run())[1]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(sys, "argv", ["x", "--scale", "0.003", "--out", str(tmp_path / "run")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert (sent["id"], sent["mode"], sent["exit"]) == ("run", "offline", 0)
    assert sent["config"]["method"] == "m2d3-pets"
    assert any("loss" in names for _, names in sent["log"])
    assert any("test accuracy/badges" in names for _, names in sent["log"])
    assert 0 < sent["summary"]["accuracy"] < 1
