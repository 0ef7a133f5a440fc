"""One run in two real processes beside the same run in one."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from metadrift import ContinualMetaLearner
from metadrift.runs.checkpoint import checkpoints, load_checkpoint
from metadrift.runs.loop import go_on
from metadrift.runs.record import read_lines

pytestmark = pytest.mark.slow


def losses(folder):
    return [line["loss"] for line in read_lines(folder / "metrics.jsonl")]


def changes(folder):
    return [e for e in read_lines(folder / "events.jsonl") if e["event"] == "change"]


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


# Two processes add up gradients in another order. In float32 single losses differ by up to 1e-5,
# and the next ones by 1e-7 again, so nothing grows. That is rounding alone: in one process,
# float32 and float64 differ by 9e-6, and changing one weight's last bit moves a loss by up to
# 5e-5 (joint: 7e-7 and 3e-7). In float64 two processes differ from one by less than 1e-15.
@pytest.mark.parametrize(
    ("name", "tolerance"), [("sequential", 1e-4), ("joint", 1e-5), ("exact", 1e-12)]
)
def test_two_processes_have_the_losses_of_one(name, tolerance, alone, together):
    one, two = losses(alone[name]), losses(together[name])
    assert len(one) == 50
    assert two == pytest.approx(one, rel=tolerance)
    assert summary(together[name])["accuracy"]["mean"] == pytest.approx(
        summary(alone[name])["accuracy"]["mean"], abs=0.02
    )
    assert summary(together[name])["timing"]["processes"] == 2
    assert "exchange" in summary(together[name])["timing"]["overhead"]
    assert "exchange" not in summary(alone[name])["timing"]["overhead"]


def test_running_averages_are_those_of_all_tasks(alone, together):
    one, two = (
        load_file(checkpoints(folder["joint"] / "checkpoints")[-1] / "tensors.safetensors")
        for folder in (alone, together)
    )
    names = [name for name in one if "running" in name]
    assert names
    for name in names:
        assert np.allclose(one[name], two[name], rtol=1e-3, atol=1e-4), name


def test_changes_are_detected_at_the_same_steps(alone, together):
    one, two = changes(alone["detecting"]), changes(together["detecting"])
    assert one
    assert [(e["at_step"], e["started_at"]) for e in one] == [
        (e["at_step"], e["started_at"]) for e in two
    ]


def test_two_processes_rehearse_as_one(together, in_float64):
    """From the learner and the memory at the end of their stream."""
    folder = together["rehearsing"]
    theirs = load_checkpoint(checkpoints(folder / "checkpoints")[-1])["method"]["specialists"]
    live = in_float64(ContinualMetaLearner.from_run, folder, device="cpu")
    assert in_float64(live.rehearse, 20) == len(theirs["copies"]) == 2
    mine = live.method.specialists.saved()
    for label, weights in theirs["copies"].items():
        for name, weight in weights.items():
            assert np.allclose(weight, mine["copies"][label][name], rtol=1e-9, atol=1e-9), name
    for name in ("means", "inverse"):
        assert np.allclose(theirs["router"][name], mine["router"][name], rtol=1e-9)


def test_two_processes_share_the_memory_of_one(alone, together):
    one, two = (summary(folder["detecting"])["memory"] for folder in (alone, together))
    assert one["capacity"] == two["capacity"] == 6
    assert one["bytes"] == 2 * two["bytes"]
    last = checkpoints(together["detecting"] / "checkpoints")[-1]
    shard = load_file(last / "shard-1.safetensors")["images"]
    first = load_checkpoint(last)["method"]["memory"]["buffer"]["images"]
    assert shard.shape == first.shape == (6, 2, 15, 1, 12, 12)
    assert not np.array_equal(shard, first)


def test_per_process_two_processes_hold_twice_the_batches_in_the_bytes_of_one_each(alone, together):
    one, two = summary(alone["detecting"])["memory"], summary(together["options"])["memory"]
    assert (one["capacity"], two["capacity"]) == (6, 12)


def test_replay_with_every_option_runs_in_two_processes(together):
    folder = together["options"]
    memories = [(folder / name).read_bytes() for name in ("memory.bin", "memory-1.bin")]
    assert memories[0] != memories[1]  # each process keeps its own tasks
    assert all(any(memory) for memory in memories)
    assert len(losses(folder)) == 50
    assert np.isfinite(losses(folder)).all()
    found = summary(folder)
    assert len(found["stages"]) == 2
    first, last = found["stages"]
    left = found["segments"][0][0]
    assert found["backward_transfer"] == pytest.approx(last[left] - first[left])


def test_a_run_of_one_process_goes_on_in_two(together):
    lines = read_lines(together["grows"] / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, 101))
    assert summary(together["grows"])["memory"]["capacity"] == 12
    last = checkpoints(together["grows"] / "checkpoints")[-1]
    assert load_checkpoint(last)["processes"] == 2


def test_a_run_of_two_processes_goes_on_in_one(together, stop_early, tmp_path):
    stop_early(together["detecting"], tmp_path / "run")
    found = go_on(tmp_path / "run", quiet=True)
    assert [line["step"] for line in read_lines(tmp_path / "run" / "metrics.jsonl")] == list(
        range(1, 101)
    )
    assert found["memory"]["capacity"] == 6
    assert [e["at_step"] for e in changes(tmp_path / "run")] == [
        e["at_step"] for e in changes(together["detecting"])
    ]


def test_a_checkpoint_without_a_shard_is_not_whole(together, stop_early, tmp_path):
    stop_early(together["detecting"], tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "step-40" / "shard-1.safetensors").unlink()
    with pytest.raises(Exception, match=r"shard-1\.safetensors is missing"):
        go_on(tmp_path / "run", quiet=True)
