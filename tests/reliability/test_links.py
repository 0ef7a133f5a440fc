"""A run from a stranger whose files are links: nothing outside its folder is written or deleted."""

import os
import shutil
from dataclasses import replace

import pytest

from metadrift.cli import main
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures
from metadrift.memory.buffer import Buffer
from metadrift.methods.base import StepRecord
from metadrift.runs.config import MemoryConfig, to_toml
from metadrift.runs.record import Recorder
from metadrift.storage.files import open_without_links
from metadrift.tasks import TaskGeometry


@pytest.fixture(scope="module")
def stopped(config, driver, tmp_path_factory):
    """A run with a mapped memory that was killed after its checkpoint of step 9."""
    folder = tmp_path_factory.mktemp("stopped")
    config = replace(config, memory=MemoryConfig(mapped=True))
    assert driver.run(folder, config, "run", ["killed_in_step", 10])[0] == -9
    return folder / "run"


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


FILES = [
    ".lock", "metrics.jsonl", "events.jsonl", "config.toml", "benchmark.toml", "memory.bin",
    "summary.json", ".config.toml.abc", ".summary.json.abc", "log.txt",
    "checkpoints/step-9/state.json", "checkpoints/step-9/tensors.safetensors",
]  # fmt: skip
FOLDERS = [
    "checkpoints", "tensorboard", "domains", "domains/dark", "checkpoints/step-9",
    "checkpoints/.step-9.new.abc", "checkpoints/.step-9.old.abc", "checkpoints/.step-12.shards",
]  # fmt: skip


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("name", FILES + FOLDERS)
def test_a_run_folder_that_holds_a_link_is_refused(name, dangling, stopped, tmp_path, capsys):
    run = shutil.copytree(stopped, tmp_path / "run")
    (run / ".lock").unlink(missing_ok=True)
    victim, place = tmp_path / "victim", run / name
    victim.mkdir()
    (victim / "step-3").mkdir()
    (victim / "step-3" / "precious").write_text("keep me")
    (victim / "file").write_text("keep me too")
    before = contents(victim)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    there = victim / "none" if dangling else victim / "file" if name in FILES else victim
    place.symlink_to(there)
    assert main(["resume", str(run), "--json"]) == 1
    said = capsys.readouterr().err
    assert str(place) in said
    assert len(said.strip().splitlines()) == 1
    assert contents(victim) == before
    assert place.is_symlink()


@pytest.mark.parametrize(
    "name", [".lock", "metrics.jsonl", "memory.bin", "checkpoints/step-9/state.json"]
)
def test_a_run_folder_that_shares_a_file_with_another_folder_is_refused(
    name, stopped, tmp_path, capsys
):
    """As after `cp -al`, which gives every file a second name."""
    run = shutil.copytree(stopped, tmp_path / "run")
    place, victim = run / name, tmp_path / "victim"
    victim.write_text("keep me")
    place.unlink(missing_ok=True)
    place.hardlink_to(victim)
    assert main(["resume", str(run), "--json"]) == 1
    said = capsys.readouterr().err
    assert f"{place} is a hard link" in said
    assert len(said.strip().splitlines()) == 1
    assert victim.read_text() == "keep me"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "config.toml", ".lock", "checkpoints/step-9/tensors.safetensors"]
)
def test_a_run_folder_that_holds_a_pipe_is_refused_and_not_waited_for(
    name, stopped, driver, tmp_path
):
    run = shutil.copytree(stopped, tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    code, said = driver(tmp_path, "resume", run, limit=60)
    assert code == 1
    assert f"{run / name} is a pipe or a device, not a file" in said


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "checkpoints", "memory.bin"])
def test_a_new_run_refuses_a_folder_that_holds_a_link(name, config, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "victim").write_text("keep me")
    (tmp_path / "run" / name).symlink_to(tmp_path / "victim")
    (tmp_path / "c.toml").write_text(to_toml(config))
    words = ["run", "--config", str(tmp_path / "c.toml"), "--out", str(tmp_path), "--name", "run"]
    assert main(words) == 1
    assert "is a link" in capsys.readouterr().err
    assert (tmp_path / "victim").read_text() == "keep me"


def test_a_comparison_refuses_a_run_that_holds_a_link(config, tmp_path, capsys):
    (tmp_path / "victim").write_text("keep me")
    run = tmp_path / "c" / "reservoir-protonet-1shot-seed0"
    run.mkdir(parents=True)
    (run / "log.txt").symlink_to(tmp_path / "victim")
    words = ["compare", "--benchmark", config.benchmark, "--ways", "3", "--queries", "2"]
    words += ["--methods", "reservoir", "--seeds", "0", "--out", str(tmp_path), "--name", "c"]
    assert main([*words, "--json"]) == 1
    assert "log.txt is a link" in capsys.readouterr().err
    assert (tmp_path / "victim").read_text() == "keep me"


def test_a_folder_may_itself_be_reached_through_a_link(config, driver, tmp_path):
    """Whoever names it wants it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    code, said = driver.run(tmp_path / "runs", config, "run")
    assert code == 0, said
    assert (tmp_path / "disk" / "run" / "summary.json").is_file()


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.jsonl"])
def test_a_link_that_is_put_there_while_a_run_goes_on_is_not_followed(name, tmp_path):
    """The check of the folder is over by then."""
    (tmp_path / "victim").write_text('{"keep": "me"}\n')
    (tmp_path / "run").mkdir()
    recorder = Recorder(tmp_path / "run", log_every=1)
    saved = recorder.state_dict()
    (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).symlink_to(tmp_path / "victim")
    step = StepRecord(loss=1.0, accuracy=1.0, latent_domain=0)
    for write in (
        lambda: (recorder.event(1, "looked"), recorder.step(0, step)),
        recorder.start_over,
        lambda: recorder.load_state_dict(saved),
        lambda: Recorder(tmp_path / "run", log_every=1),
    ):
        with pytest.raises(OSError, match="link"):
            write()
    assert (tmp_path / "victim").read_text() == '{"keep": "me"}\n'


def test_a_memory_is_not_mapped_through_a_link(tmp_path):
    (tmp_path / "victim").write_text("keep me")
    (tmp_path / "memory.bin").symlink_to(tmp_path / "victim")
    with pytest.raises(MetadriftError, match="link"):
        Buffer(2, 2, TaskGeometry(2, 1, 1), Pictures(8, 1), file=tmp_path / "memory.bin")
    assert (tmp_path / "victim").read_text() == "keep me"


@pytest.mark.parametrize("mode", ["ab", "wb", "r+b", "w+b"])
def test_a_file_of_ours_is_never_opened_through_a_link(mode, tmp_path):
    (tmp_path / "victim").write_text("keep me")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="link"):
        open_without_links(tmp_path / "link", mode)
    assert (tmp_path / "victim").read_text() == "keep me"
