"""Checkpoints that are well formed but say something else: one sentence, and no step is taken."""

import json
import os
import shutil
from dataclasses import replace

import pytest
from safetensors.torch import load_file, save_file

from metadrift.cli import main
from metadrift.errors import MetadriftError
from metadrift.runs.checkpoint import checkpoints, sums
from metadrift.runs.folder import refuse_taken
from metadrift.runs.record import read_lines


@pytest.fixture(scope="module")
def stopped(config, driver, tmp_path_factory):
    """A run that was killed after its checkpoint of step 9, the only one it keeps."""
    folder = tmp_path_factory.mktemp("stopped")
    assert driver.run(folder, replace(config, keep=1), "run", ["killed_in_step", 10])[0] == -9
    (saved,) = checkpoints(folder / "run" / "checkpoints")
    assert saved.name == "step-9"
    return folder / "run"


def seal(path, saved):
    """Write state.json with the sums of what is there now, as a forger would."""
    saved["sha256"] = sums(path, saved["state"])
    (path / "state.json").write_text(json.dumps(saved))


def put(state, path, value):
    """Set (or with ... remove) an entry of state.json, whose dicts are {"dict": {...}}."""
    *parents, last = path.split("/")
    for name in parents:
        state = state["dict"][name]
    if value is ...:
        del state["dict"][last]
    else:
        state["dict"][last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("step", "nine"),
        ("step", -3),
        ("step", 10**9),
        ("step", None),
        ("stages", ...),
        ("seconds", []),
        ("skipped", {"dict": {}}),
        ("recorder", ...),
        ("recorder/metrics_bytes", -1),
        ("method", 3),
        ("method/learner", {"dict": {}}),
        ("method/optimizer", ...),
        ("method/memory", ...),
        ("method/memory/buffer", {"dict": {}}),
        ("method/rng", {"dict": {"bit_generator": "MT19937"}}),
        ("method/detector", {"dict": {"step": "x"}}),
        ("method/fresh_tasks", {"dict": {"uses": "x"}}),
    ],
)
def test_a_state_that_does_not_fit_is_refused_in_one_sentence(
    path, value, stopped, tmp_path, capsys
):
    run = shutil.copytree(stopped, tmp_path / "run")
    file = run / "checkpoints" / "step-9" / "state.json"
    saved = json.loads(file.read_text())
    put(saved["state"], path, value)
    seal(file.parent, saved)
    assert main(["resume", str(run), "--json"]) == 1
    said = capsys.readouterr().err.strip()
    assert "step-9" in said
    assert len(said.splitlines()) == 1
    assert not (run / "summary.json").exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("method/optimizer/state/0/exp_avg", 3),
        ("method/detector/rng/state/inc", 2**200),
        ("seconds/part memory", "long"),
    ],
)
def test_values_that_fail_only_in_a_later_step_get_one_sentence(
    path, value, stopped, tmp_path, capsys
):
    run = shutil.copytree(stopped, tmp_path / "run")
    file = run / "checkpoints" / "step-9" / "state.json"
    saved = json.loads(file.read_text())
    put(saved["state"], path, value)
    seal(file.parent, saved)
    assert main(["resume", str(run), "--json"]) == 1
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert "step-9" in said or "checkpoint of step 9" in said
    assert not (run / "summary.json").exists()


def test_another_version_is_named_when_a_run_goes_on_and_the_same_one_is_not(
    stopped, tmp_path, capsys
):
    run = shutil.copytree(stopped, tmp_path / "run")
    file = run / "checkpoints" / "step-9" / "state.json"
    saved = json.loads(file.read_text())
    put(saved["state"], "versions/torch", "1.0")
    seal(file.parent, saved)
    assert main(["resume", str(run)]) == 0
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "written with" in line)
    assert "step-9 was written with torch 1.0, this is " in said


@pytest.mark.parametrize("name", ["/dev/zero", "../../../precious", "..", "state.json"])
def test_the_sums_of_a_checkpoint_name_files_of_its_own_only(name, stopped, tmp_path, capsys):
    run = shutil.copytree(stopped, tmp_path / "run")
    file = run / "checkpoints" / "step-9" / "state.json"
    saved = json.loads(file.read_text())
    saved["sha256"][name] = "0" * 64
    file.write_text(json.dumps(saved))
    assert main(["resume", str(run), "--json"]) == 1
    assert "is no file of a checkpoint" in capsys.readouterr().err


def test_a_header_that_lies_is_noticed_before_the_file_is_read(stopped, tmp_path, capsys):
    """A sparse file of a terabyte, which nobody could add up."""
    run = shutil.copytree(stopped, tmp_path / "run")
    os.truncate(run / "checkpoints" / "step-9" / "tensors.safetensors", 2**40)
    assert main(["resume", str(run), "--json"]) == 1
    assert "step-9 is damaged" in capsys.readouterr().err


def test_weights_of_another_shape_are_refused(stopped, tmp_path, capsys):
    run = shutil.copytree(stopped, tmp_path / "run")
    file = run / "checkpoints" / "step-9" / "tensors.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.startswith("/method/learner/"))
    tensors[name] = tensors[name].repeat(2, *[1] * (tensors[name].ndim - 1))
    save_file(tensors, file)
    seal(file.parent, json.loads(file.with_name("state.json").read_text()))
    assert main(["resume", str(run), "--json"]) == 1
    assert "step-9 does not fit this run" in capsys.readouterr().err


def test_no_new_run_begins_where_a_stopped_one_left_checkpoints(stopped):
    with pytest.raises(MetadriftError, match=r"exists already: `metadrift resume .*` goes on"):
        refuse_taken(stopped)


def test_files_that_lost_nothing_are_not_spoken_of(stopped, tmp_path, capsys):
    run = shutil.copytree(stopped, tmp_path / "run")
    assert main(["resume", str(run)]) == 0
    assert "the lines between are lost" not in capsys.readouterr().err


@pytest.mark.parametrize("bytes_left", [0, 9, 250])
def test_a_file_that_was_cut_is_cut_back_to_its_last_whole_line(
    bytes_left, stopped, tmp_path, capsys
):
    """As a power cut leaves it: what the checkpoint counts on is not on the disk."""
    run = shutil.copytree(stopped, tmp_path / "run")
    for name in ("metrics.jsonl", "events.jsonl"):
        os.truncate(run / name, bytes_left)
    assert main(["resume", str(run)]) == 0
    said = capsys.readouterr().err
    for name in ("metrics.jsonl", "events.jsonl"):
        assert f"{run / name} had " in said
        damaged = []
        assert read_lines(run / name, damaged)
        assert damaged == []
        assert b"\0" not in (run / name).read_bytes()
    steps = [line["step"] for line in read_lines(run / "metrics.jsonl")]
    assert steps[-4:] == [10, 12, 14, 16]
    assert main(["report", str(run)]) == 0
