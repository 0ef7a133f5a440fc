"""What a run writes about its steps."""

import math

import pytest

from metadrift.methods.base import StepRecord
from metadrift.runs.record import Recorder, read_lines


def test_a_line_holds_means_over_its_steps_and_over_those_that_replayed(tmp_path):
    recorder = Recorder(tmp_path, log_every=4)
    replayed = [math.nan, 2.0, 4.0, math.nan, math.nan, math.nan, math.nan, math.nan]
    for step, replay in enumerate(replayed):
        record = StepRecord(loss=step, accuracy=step / 10, latent_domain=0, replay_loss=replay)
        recorder.step(step, record)
    first, second = read_lines(tmp_path / "metrics.jsonl")
    assert (first["step"], first["loss"], first["replay_loss"]) == (4, 1.5, 3.0)
    assert first["accuracy"] == pytest.approx(0.15)
    assert (second["step"], second["loss"], second["replay_loss"]) == (8, 5.5, None)
