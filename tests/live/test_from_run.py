"""A live program goes on where a run of the command line ended."""

import pytest
import torch

from metadrift import ContinualMetaLearner
from metadrift.checks import _equal
from metadrift.cli import main
from metadrift.errors import MetadriftError, UsageError
from metadrift.methods.average import evaluated_weights
from metadrift.runs.build import build
from metadrift.runs.checkpoint import checkpoints, load_checkpoint
from metadrift.runs.config import load_config

SETTINGS = [
    "--scale", "0.2", "--ways", "3", "--queries", "2", "--test-tasks", "2", "--stage-tasks", "0",
    "--checkpoint-every", "8", "--keep", "9", "--threads", "1", "--learn.filters", "4",
    "--device", "cpu", "--json",
]  # fmt: skip


@pytest.fixture
def run(tiny_benchmark, tmp_path):
    def make(name, *words):
        command = ["run", "--benchmark", str(tiny_benchmark), "--out", str(tmp_path)]
        assert main([*command, "--name", name, *words, *SETTINGS]) == 0
        return tmp_path / name

    return make


@pytest.mark.parametrize(
    "words",
    [
        ["--learn.average", "0.9", "--memory.mapped"],
        ["--method", "reservoir", "--optim.schedule", "cosine", "--optim.name", "SGD"],
    ],
)
def test_it_goes_on_to_the_weights_memory_and_detector_of_the_run(run, words, capsys):
    folder = run("run", *words)
    last = load_checkpoint(checkpoints(folder / "checkpoints")[-1])
    model = ContinualMetaLearner.from_run(folder, checkpoint=8, device="cpu")
    assert model.steps == 8
    stream = build(load_config(folder / "config.toml"), folder).stream
    stream.load_state_dict({"step": 8})
    for tasks in stream:
        model.observe(tasks)
    state = model.method.state_dict()
    assert model.steps == last["step"]
    for name in ("memory", "optimizer", "detector", "average", "schedule"):
        assert _equal(state.get(name), last["method"].get(name)), name
    one, two = evaluated_weights(state), evaluated_weights(last["method"])
    assert all(torch.equal(one[name], two[name]) for name in two)


def test_what_cannot_go_on_live_is_one_sentence(run, tmp_path, capsys):
    with pytest.raises(MetadriftError, match="is not a run's folder"):
        ContinualMetaLearner.from_run(tmp_path)
    folder = run("joint", "--method", "joint")
    with pytest.raises(UsageError, match="joint training has all domains at hand"):
        ContinualMetaLearner.from_run(folder)
    with pytest.raises(UsageError, match="keeps no checkpoint of step 7"):
        ContinualMetaLearner.from_run(folder, checkpoint=7)
