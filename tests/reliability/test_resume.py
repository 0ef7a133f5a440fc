"""A run that is killed, at any moment and however often, ends as one that was not."""

from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from driven import STEPS
from metadrift import registry
from metadrift.data.pack import SPLITS, write_pack
from metadrift.methods import OptimConfig
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import STREAMS
from tiny_runs import assert_same_run, write_benchmark

METHODS = (*registry.built_in("methods"), *STREAMS)
IN_A_CHECKPOINT = [
    "killed_with_half_of_the_tensors",
    "killed_before_the_json",
    "killed_before_flushing",
    "killed_before_the_rename",
    "killed_after_the_rename",
    "killed_while_pruning",
]


def test_the_list_of_methods_is_whole():
    assert len(METHODS) == 11
    assert {"m2d3-pets", "mer", "joint"} <= set(METHODS)


@pytest.mark.parametrize("learner", ["protonet", "anil"])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_killed_twice_resumes_to_the_same_bytes(method, learner, config, driver, tmp_path):
    config = replace(config, method=method, learner=learner)
    rng = np.random.default_rng(crc32(f"{method} {learner}".encode()))
    assert driver.run(tmp_path, config, "whole")[0] == 0
    step = int(rng.integers(1, 6 if method == "independent" else 17))
    killed = driver.run(tmp_path, config, "killed", ["killed_in_step", step])
    assert killed[0] == -9, killed[1]
    # Then in the middle of writing the first or second checkpoint after that.
    where = str(rng.choice(IN_A_CHECKPOINT))
    killed = driver.resume(tmp_path, "killed", [where, int(rng.integers(1, 3))])
    assert killed[0] in (-9, 0), killed[1]
    code, said = driver.resume(tmp_path, "killed")
    assert code == 0, said
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_killed_run_goes_on_with_the_same_average_of_its_weights(config, driver, tmp_path):
    config = replace(config, learn=replace(config.learn, average=0.9, normalisation="running"))
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "killed", ["killed_in_step", 11])[0] == -9
    code, said = driver.resume(tmp_path, "killed")
    assert code == 0, said
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("method", ["m2d3-pets", "gss"])
def test_a_killed_run_of_vectors_resumes_to_the_same_bytes(method, config, driver, tmp_path):
    rng = np.random.default_rng(0)
    for place, name in enumerate(STEPS):
        centres = rng.normal(2 * place, 1, (18, 1, 6))
        rows = [
            (f"class{c}", SPLITS[c // 6], centres[c] + rng.normal(0, 0.5, (8, 6)))
            for c in range(18)
        ]
        rows = [(label, split, x.astype(np.float32)) for label, split, x in rows]
        write_pack(tmp_path / name, name, rows, source="made by the tests", licence="CC0")
    benchmark = write_benchmark(tmp_path / "vectors.toml", STEPS, memory=6)
    config = replace(config, benchmark=str(benchmark), method=method, backbone="mlp")
    assert driver.run(tmp_path, config, "whole")[0] == 0
    killed = driver.run(tmp_path, config, "killed", ["killed_in_step", 8])
    assert killed[0] == -9, killed[1]
    killed = driver.resume(tmp_path, "killed", ["killed_with_half_of_the_tensors", 1])
    assert killed[0] == -9, killed[1]
    code, said = driver.resume(tmp_path, "killed")
    assert code == 0, said
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_killed_run_goes_on_with_the_same_optimiser_and_schedule(config, driver, tmp_path):
    options = ("momentum=0.9", "nesterov=true")
    optim = OptimConfig("SGD", options, 1e-3, clip=0.5, schedule="cosine", warmup=4)
    config = replace(config, optim=optim, lr=0.05)
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "killed", ["killed_in_step", 11])[0] == -9
    code, said = driver.resume(tmp_path, "killed")
    assert code == 0, said
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("where", IN_A_CHECKPOINT)
def test_a_run_killed_while_it_writes_a_checkpoint_resumes_to_the_same_bytes(
    where, number, config, driver, tmp_path
):
    assert driver.run(tmp_path, config, "whole")[0] == 0
    code, said = driver.run(tmp_path, config, "killed", [where, number])
    assert code == -9, said
    code, said = driver.resume(tmp_path, "killed")
    assert code == 0, said
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    left = [path.name for path in (tmp_path / "killed" / "checkpoints").iterdir()]
    assert len(left) == config.keep
    assert not any(name.startswith(".") for name in left)


@pytest.mark.parametrize(
    "sabotage",
    [["killed_in_evaluation", 2], ["killed_in_evaluation", 4], ["killed_before_the_summary", 3]],
)
def test_a_run_killed_in_an_evaluation_or_before_its_summary_resumes(
    sabotage, config, driver, tmp_path
):
    assert driver.run(tmp_path, config, "whole")[0] == 0
    code, said = driver.run(tmp_path, config, "killed", sabotage)
    assert code == -9, said
    assert not (tmp_path / "killed" / "summary.json").exists()
    assert driver.resume(tmp_path, "killed")[0] == 0
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    assert not [path.name for path in (tmp_path / "killed").iterdir() if path.name[0] == "."]


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_taken(config, driver, tmp_path):
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "hurt", ["killed_in_step", 10])[0] == -9
    *_, before, newest = checkpoints(tmp_path / "hurt" / "checkpoints")
    assert (before.name, newest.name) == ("step-6", "step-9")
    (newest / "tensors.safetensors").write_bytes(b"zeros" * 9)
    code, said = driver(tmp_path, "resume", tmp_path / "hurt")
    assert code == 0, said
    assert "step-9 is damaged" in said
    assert "the one before it, step 6" in said
    assert_same_run(tmp_path / "whole", tmp_path / "hurt")


def test_a_flipped_bit_in_the_newest_checkpoint_is_noticed_and_the_one_before_it_taken(
    config, driver, tmp_path
):
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "hurt", ["killed_in_step", 10])[0] == -9
    file = tmp_path / "hurt" / "checkpoints" / "step-9" / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 4  # the last tensor, far behind the header
    file.write_bytes(data)
    code, said = driver(tmp_path, "resume", tmp_path / "hurt")
    assert code == 0, said
    assert "step-9 is damaged: tensors.safetensors is not as it was written; going on" in said
    assert_same_run(tmp_path / "whole", tmp_path / "hurt")


def test_what_a_checkpoint_counts_on_is_on_the_disk_before_it(config, driver, tmp_path):
    code, said = driver.run(tmp_path, config, "run", ["lists_fsyncs", str(tmp_path / "list")])
    assert code == 0, said
    order = (tmp_path / "list").read_text().splitlines()
    saved = [k for k, name in enumerate(order) if name == "tensors.safetensors"]
    assert len(saved) == 6
    for before, now in zip([0, *saved], saved, strict=False):
        assert {"metrics.jsonl", "events.jsonl"} <= set(order[before:now])


def test_with_all_checkpoints_damaged_the_newest_is_named_and_nothing_is_begun_anew(
    config, driver, tmp_path
):
    assert driver.run(tmp_path, config, "hurt", ["killed_in_step", 10])[0] == -9
    for path in checkpoints(tmp_path / "hurt" / "checkpoints"):
        (path / "state.json").write_text("{}")
    code, said = driver.resume(tmp_path, "hurt")
    assert code == 1
    assert "step-9 is not a checkpoint" in said
    assert "Traceback" not in said
