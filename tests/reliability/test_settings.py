"""A run's folder holds all that the run follows from, and nothing else is taken for it."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from metadrift import registry
from metadrift.cli import main
from metadrift.data.pack import open_pack
from metadrift.runs.config import STREAMS, load_config, to_toml
from metadrift.runs.loop import start
from metadrift.runs.prepare import prepared
from metadrift.runs.record import read_lines
from metadrift.runs.resolve import depends_on, fingerprint, resolved
from metadrift.streams import load_benchmark
from tiny_runs import assert_same_run, write_benchmark, write_domain

METADRIFT = Path(sys.executable).with_name("metadrift")
STEPS = {"dark": 6, "middle": 5, "bright": 6}


@pytest.fixture
def place(tmp_path):
    """A folder with its own packs and benchmark, to be changed."""
    home = tmp_path / "place"
    home.mkdir()
    write_domain(home, "dark", 1, 50, 1)
    write_domain(home, "middle", 2, 120, 3)
    write_domain(home, "bright", 3, 200, 1)
    write_benchmark(home / "own.toml", STEPS, memory=6)
    return home


@pytest.fixture
def stopped(config, driver, place, tmp_path):
    """A finished run, and the same one killed in step 10."""
    config = replace(config, benchmark=str(place / "own.toml"))
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "killed", ["killed_in_step", 10])[0] == -9
    return tmp_path / "killed"


def put(file, setting, value):
    """Change one line of a TOML file."""
    text, count = re.subn(
        rf"^{setting} = .*$", f"{setting} = {value}", file.read_text(), count=1, flags=re.MULTILINE
    )
    assert count == 1
    file.write_text(text)


@pytest.mark.parametrize(
    ("method", "learner"),
    [(method, "protonet") for method in (*registry.built_in("methods"), *STREAMS)]
    + [("m2d3-pets", learner) for learner in registry.built_in("learners")],
)
def test_no_setting_is_left_to_a_default(method, learner, config):
    config = replace(config, method=method, learner=learner, scale=0.5, threads=None)
    config = replace(config, detection=type(config.detection)(), learn=type(config.learn)())
    settled, benchmark = prepared(config)
    flat = {k: v for k, v in asdict(settled).items() if not isinstance(v, dict)}
    groups = {k: v for k, v in asdict(settled).items() if isinstance(v, dict)}
    flat |= {f"{group}.{k}": v for group, table in groups.items() for k, v in table.items()}
    open_still = {name for name, value in flat.items() if value in (None, "auto")}
    # None is meant, and the device stays as asked.
    allowed = {"only", "data", "device", "memory.rule", "replay.sampler"}
    allowed |= {"optim.steps"}  # the length of the stream, which benchmark.toml holds
    if learner in ("protonet", "ridge"):
        allowed |= {"learn.inner_lr"}
    assert open_still <= allowed
    assert (settled.memory.capacity, settled.detection.window) == (benchmark.memory, 40)
    assert settled.detection.delta > 0
    assert resolved(settled, benchmark) == settled


def test_a_run_repeats_itself_from_any_folder(config, place, tmp_path):
    """The installed command, by a relative path; then from its folder, elsewhere."""
    config = replace(config, benchmark="own.toml", scale=0.9, threads=None)
    (place / "mine.toml").write_text(to_toml(config))
    words = [METADRIFT, "run", "--json", "--config"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*words, "mine.toml", "--name", "one", "--device", "cpu"],
        cwd=place, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    first = place / "runs" / "one"
    # What it came from changes after that.
    write_benchmark(place / "own.toml", {"bright": 3}, memory=1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [*words, os.path.relpath(first / "config.toml", elsewhere)],
        cwd=elsewhere, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    second = elsewhere / "runs" / "m2d3-pets-protonet-own-1shot-seed0"
    assert_same_run(first, second)
    assert json.loads(done.stdout)["scale"] == 0.9
    texts = [(run / "config.toml").read_text() for run in (first, second)]
    assert texts[0] == texts[1]


def test_a_half_done_run_needs_nothing_but_its_folder_and_its_packs(stopped, place, monkeypatch):
    (place / "own.toml").unlink()
    monkeypatch.chdir("/")
    assert main(["resume", str(stopped), "--json"]) == 0
    assert_same_run(stopped.with_name("whole"), stopped)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("method", '"reservoir"', 'method = "m2d3-pets", and now it is "reservoir"'),
        ("seed", "7", "seed = 0, and now it is 7"),
        ("lr", "0.5", "lr = 0.001, and now it is 0.5"),
        ("capacity", "3", "memory.capacity = 6, and now it is 3"),
        ("window", "5", "detection.window = 3, and now it is 5"),
        ("on_nan", '"skip"', 'on_nan = "stop", and now it is "skip"'),
    ],
)
def test_a_setting_that_was_edited_is_refused_by_name(setting, value, says, stopped, capsys):
    put(stopped / "config.toml", setting, value)
    assert main(["resume", str(stopped), "--json"]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert f"put it back in {stopped / 'config.toml'}" in said
    assert len(said.strip().splitlines()) == 1
    assert not (stopped / "summary.json").exists()


def test_what_does_not_change_the_result_may_be_edited(stopped):
    edits = {"device": '"cpu"', "threads": 1, "keep": 3, "checkpoint_every": 1}
    for setting, value in edits.items():
        put(stopped / "config.toml", setting, value)
    assert main(["resume", str(stopped), "--json"]) == 0
    assert_same_run(stopped.with_name("whole"), stopped)


def test_a_benchmark_that_was_edited_in_the_folder_is_refused(stopped, capsys):
    file = stopped / "benchmark.toml"
    file.write_text(file.read_text().replace("steps = 6", "steps = 8", 1))
    assert main(["resume", str(stopped), "--json"]) == 1
    says = 'segments = "dark 6, middle 5, bright 6", and now it is "dark 8, middle 5, bright 6"'
    assert says in capsys.readouterr().err


def test_a_pack_with_other_images_is_refused_by_name(stopped, place, capsys):
    before = open_pack(place / "middle").sha256
    shutil.rmtree(place / "middle")
    write_domain(place, "middle", 22, 120, 3)
    now = open_pack(place / "middle").sha256
    assert main(["resume", str(stopped), "--json"]) == 1
    said = capsys.readouterr().err
    assert f"pack 'middle' at {place / 'middle'} has other examples" in said
    assert f"sha256 {now}, but the run was begun with {before}" in said
    assert len(said.strip().splitlines()) == 1


def test_a_pack_whose_classes_changed_their_split_is_refused(stopped, place, capsys):
    file = place / "bright" / "pack.json"
    file.write_text(file.read_text().replace('"val"', '"train"', 1))
    assert main(["resume", str(stopped), "--json"]) == 1
    assert "pack 'bright'" in capsys.readouterr().err


def test_a_pack_that_moved_is_found_where_benchmark_toml_says(stopped, place):
    (place / "dark").rename(place / "moved")
    file = stopped / "benchmark.toml"
    file.write_text(file.read_text().replace(str(place / "dark"), str(place / "moved")))
    assert main(["resume", str(stopped), "--json"]) == 0
    assert_same_run(stopped.with_name("whole"), stopped)


@pytest.mark.parametrize("edited", ["seed", "lr"])
def test_independent_training_refuses_a_domain_of_other_settings(edited, config, driver, tmp_path):
    config = replace(config, method="independent")
    assert driver.run(tmp_path, config, "run", ["killed_in_step", 8])[0] == -9
    put(tmp_path / "run" / "config.toml", edited, 0.25 if edited == "lr" else 9)
    code, said = driver.resume(tmp_path, "run")
    assert code == 1
    assert f"{Path('run', 'domains', 'dark')} was begun with {edited} = " in said


def test_versions_are_written_down_whenever_a_run_begins_or_goes_on(stopped):
    assert main(["resume", str(stopped), "--json"]) == 0
    noted = [e for e in read_lines(stopped / "events.jsonl") if e["event"] in ("began", "resumed")]
    assert [(e["event"], e["step"]) for e in noted] == [("began", 0), ("resumed", 9)]
    assert {"metadrift", "torch", "numpy", "python"} <= set(noted[0]["versions"])


def test_a_folder_of_an_earlier_version_gets_one_sentence(config, tmp_path, capsys):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.toml").write_text(to_toml(config))
    assert main(["resume", str(tmp_path / "old")]) == 1
    said = capsys.readouterr().err
    assert "begun by metadrift 0.1" in said
    assert len(said.strip().splitlines()) == 1


def test_the_summary_says_what_it_is_of_and_its_sum_follows_from_that(config, tmp_path):
    summary = start(config, tmp_path / "one", quiet=True)
    again = load_config(tmp_path / "one" / "config.toml")
    settings = depends_on(again, load_benchmark(again.benchmark))
    assert summary["settings"] == settings
    assert summary["config_sha256"] == fingerprint(settings)
    other = start(replace(config, seed=1), tmp_path / "two", quiet=True)
    assert other["config_sha256"] != summary["config_sha256"]
    quicker = start(replace(config, keep=5, log_every=3), tmp_path / "three", quiet=True)
    assert quicker["config_sha256"] == summary["config_sha256"]
