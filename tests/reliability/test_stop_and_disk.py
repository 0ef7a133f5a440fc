"""A run that is asked to stop says where it saved itself; a full disk costs no checkpoint."""

import os
import signal
import subprocess
from dataclasses import replace

import pytest

from metadrift.runs.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from metadrift.runs.config import to_toml
from tiny_runs import assert_same_run


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("where", ["told_in_training", "told_in_evaluation"])
def test_a_run_that_is_asked_to_stop_saves_itself_and_says_where(
    where, number, code, config, driver, tmp_path
):
    config = replace(config, stage_tasks=0, checkpoint_every=1000)
    assert driver.run(tmp_path, config, "whole")[0] == 0
    ended, said = driver.run(tmp_path, config, "asked", [where, int(number)])
    assert ended == code, said
    (saved,) = checkpoints(tmp_path / "asked" / "checkpoints")
    assert saved.name == ("step-17" if where == "told_in_evaluation" else "step-4")
    assert str(saved) in said
    assert f"metadrift resume {tmp_path / 'asked'}" in said
    assert driver.resume(tmp_path, "asked")[0] == 0
    assert_same_run(tmp_path / "whole", tmp_path / "asked")


@pytest.mark.parametrize("keep", [1, 3])
def test_no_more_checkpoints_are_kept_than_asked_for(keep, config, driver, tmp_path):
    config = replace(config, keep=keep, checkpoint_every=1)
    code, said = driver.run(tmp_path, config, "run", ["counts_checkpoints", str(tmp_path / "most")])
    assert code == 0, said
    kept = checkpoints(tmp_path / "run" / "checkpoints")
    assert [path.name for path in kept] == [f"step-{n}" for n in range(18 - keep, 18)]
    # The new one is whole before an old one goes.
    assert int((tmp_path / "most").read_text()) == keep + 1


def test_a_full_disk_leaves_the_checkpoint_before_it_whole_and_says_what_is_needed(
    config, driver, tmp_path
):
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "full", ["killed_in_step", 5])[0] == -9
    code, said = driver.resume(tmp_path, "full", ["small_files", 9000])
    assert code == 1
    assert "Traceback" not in said
    assert "step-6 could not be written (" in said
    assert "MB on that disk" in said
    assert "step-3, is whole" in said
    (kept,) = checkpoints(tmp_path / "full" / "checkpoints")
    assert load_checkpoint(kept)["step"] == 3
    assert driver.resume(tmp_path, "full")[0] == 0
    assert_same_run(tmp_path / "whole", tmp_path / "full")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own that is soon full."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(place)]
    if os.name == "nt" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_small_disk_ends_the_run_in_a_sentence_and_more_room_lets_it_go_on(
    small_disk, config, driver, tmp_path
):
    config = replace(config, keep=5)
    assert driver.run(tmp_path, config, "whole")[0] == 0
    file = tmp_path / "whole" / "config.toml"
    words = ["run", "--config", file, "--out", small_disk, "--name", "run"]
    code, said = driver(tmp_path, *words)
    assert code == 1, said
    assert "Traceback" not in said
    assert "No space left" in said
    for path in checkpoints(small_disk / "run" / "checkpoints"):
        assert load_checkpoint(path)["step"] > 0
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    code, said = driver(tmp_path, "resume", small_disk / "run", "--json")
    assert code == 0, said
    assert_same_run(tmp_path / "whole", small_disk / "run")


def test_a_folder_that_cannot_be_made_is_named(config, driver, tmp_path):
    (tmp_path / "file").write_text("in the way")
    file = tmp_path / "c.toml"
    file.write_text(to_toml(config))
    words = ["run", "--config", file, "--out", tmp_path / "file", "--name", "run"]
    code, said = driver(tmp_path, *words)
    assert code == 1
    assert "cannot be written" in said
    assert "Traceback" not in said


def test_a_checkpoint_that_cannot_be_written_leaves_nothing_half_written(tmp_path):
    save_checkpoint(tmp_path, 1, {"x": 1})
    with pytest.raises(TypeError):
        save_checkpoint(tmp_path, 2, {"x": object()})
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
