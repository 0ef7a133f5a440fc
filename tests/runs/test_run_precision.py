"""--precision: settled at the start, recorded, kept by a resumed run and by a comparison."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from metadrift.errors import UsageError
from metadrift.experiments.grid import Grid
from metadrift.experiments.precision import settled
from metadrift.learners.precision import computes_bf16
from metadrift.live.model import load
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import LearnerConfig, RunConfig, from_toml, load_config, to_toml
from metadrift.runs.loop import start
from metadrift.runs.record import read_lines
from tiny_runs import assert_same_run

METADRIFT = Path(sys.executable).with_name("metadrift")
SMALL = ["--ways", "3", "--queries", "2", "--test-tasks", "8", "--stage-tasks", "0"]
SMALL += ["--learn.filters", "4", "--threads", "1"]


def metadrift(*words):
    return subprocess.run([METADRIFT, *map(str, words)], capture_output=True, text=True)


@pytest.fixture
def config(tiny_benchmark):
    return RunConfig(
        benchmark=str(tiny_benchmark),
        scale=0.1,
        ways=3,
        queries=2,
        test_tasks=4,
        stage_tasks=0,
        log_every=1,
        learn=LearnerConfig(filters=4, inner_steps=2),
    )


def test_float32_is_the_default_and_a_file_may_name_another():
    assert RunConfig().precision == "float32"
    assert from_toml('precision = "bf16"').precision == "bf16"
    assert from_toml(to_toml(RunConfig(precision="auto"))).precision == "auto"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["m2d3-pets", "joint", "independent"])
@pytest.mark.parametrize("learner", ["protonet", "anil", "maml", "ridge"])
def test_a_run_in_bf16_is_another_run_and_says_so(method, learner, config, tmp_path):
    found = {}
    for precision in ("float32", "bf16"):
        settings = {**vars(config), "method": method, "learner": learner, "precision": precision}
        folder = tmp_path / precision
        found[precision] = start(RunConfig(**settings), folder, quiet=True)
        assert found[precision]["precision"] == precision
        assert found[precision]["settings"]["precision"] == precision
        for home in folder.rglob("config.toml"):
            assert load_config(home).precision == precision
    assert found["bf16"]["config_sha256"] != found["float32"]["config_sha256"]
    files = [next((tmp_path / p).rglob("metrics.jsonl")) for p in found]
    losses = [[line["loss"] for line in read_lines(file)] for file in files]
    assert losses[0]
    assert losses[0] != losses[1]


@pytest.mark.slow
def test_auto_is_settled_before_the_first_step_and_says_why(tiny_benchmark, tmp_path):
    words = ["run", "--benchmark", tiny_benchmark, "--scale", "0.1", "--out", tmp_path, *SMALL]
    done = metadrift(*words, "--name", "auto", "--precision", "auto")
    assert done.returncode == 0, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("precision ")]
    took = json.loads((tmp_path / "auto" / "summary.json").read_text())["precision"]
    assert said.startswith(f"precision {took}: ")
    assert f'precision = "{took}"' in (tmp_path / "auto" / "config.toml").read_text()
    quiet = metadrift(*words, "--name", "quiet", "--precision", "auto", "--json")
    assert "precision" not in quiet.stderr
    wrong = metadrift(*words, "--precision", "half")
    assert wrong.returncode == 2
    assert "float32" in wrong.stderr


@pytest.mark.slow
def test_a_run_in_bf16_killed_and_resumed_by_the_command_gives_the_same_bytes(
    tiny_benchmark, tmp_path
):
    words = ["run", "--benchmark", tiny_benchmark, "--out", tmp_path, "--precision", "bf16"]
    words = [*map(str, words), *SMALL, "--checkpoint-every", "7"]
    whole = metadrift(*words, "--name", "whole")
    assert whole.returncode == 0, whole.stderr
    killed = tmp_path / "killed"
    process = subprocess.Popen([METADRIFT, *words, "--name", "killed", "--json"])
    end = time.monotonic() + 120
    while not checkpoints(killed / "checkpoints"):
        assert time.monotonic() < end
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not (killed / "summary.json").exists()
    resumed = metadrift("resume", killed)
    assert resumed.returncode == 0, resumed.stderr
    assert_same_run(tmp_path / "whole", killed)
    assert load(killed, device="cpu").learner.precision == "bf16"


GRID = """
seeds = [0]
[settings]
benchmark = "{benchmark}"
scale = 0.1
ways = 3
queries = 2
test_tasks = 4
stage_tasks = 0
learn.filters = 4
precision = "{precision}"
[[variants]]
name = "reservoir"
method = "reservoir"
{own}
[[variants]]
method = "sequential"
"""


@pytest.mark.slow
def test_a_comparison_names_a_precision_that_differs_and_refuses_one_that_changed(
    tiny_benchmark, tmp_path
):
    def compared(precision, own="", name="c"):
        file = tmp_path / "grid.toml"
        file.write_text(GRID.format(benchmark=tiny_benchmark, precision=precision, own=own))
        return metadrift("compare", "--grid", file, "--out", tmp_path, "--name", name)

    done = compared("bf16")
    assert done.returncode == 0, done.stderr
    assert "precision: bf16, in every variant" in done.stdout
    other = compared("float32")
    assert other.returncode == 1
    assert 'begun with precision = "bf16", and now it is "float32"' in other.stderr
    auto = compared("auto")  # goes on with what it was begun with
    assert auto.returncode == 0, auto.stderr
    assert f"precision bf16: {tmp_path / 'c'} was begun with it" in auto.stderr
    mixed = compared("float32", own='precision = "bf16"', name="mixed")
    assert mixed.returncode == 0, mixed.stderr
    said = "not the same in all variants, precision: bf16 in reservoir; float32 in sequential"
    for text in (mixed.stdout, (tmp_path / "mixed" / "report.html").read_text()):
        assert said in " ".join(text.split())
    # Somebody puts a run of another precision into the place of one.
    two = tmp_path / "mixed" / "sequential-protonet-1shot-seed0" / "summary.json"
    two.write_text(two.read_text().replace('"precision": "float32"', '"precision": "bf16"'))
    page = metadrift("report", tmp_path / "mixed")
    assert page.returncode == 1
    assert 'begun with precision = "bf16", and now it is "float32"' in page.stderr


def test_auto_in_a_comparison_is_one_precision_for_all_its_runs(config, tmp_path):
    settings = {"benchmark": config.benchmark, "ways": 3, "queries": 2, "learn": {"filters": 4}}
    variants = {"a": {"method": "reservoir", "precision": "auto"}, "b": {"method": "joint"}}
    auto = Grid("t", variants, ("protonet", "ridge"), settings=settings | {"precision": "auto"})
    grid, notes = settled(auto, tmp_path)
    found = {cell.config.precision for cell in grid.cells()}
    assert len(found) == 1
    assert found <= ({"float32", "bf16"} if computes_bf16(torch.device("cpu")) else {"float32"})
    assert {note.split(":")[0] for note in notes} >= {"protonet", "ridge"}
    with pytest.raises(UsageError, match="choose float32 or bf16"):
        settled(auto, tmp_path, here=False)
