import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metadrift.detection import DetectionConfig
from metadrift.errors import MetadriftError
from metadrift.runs.build import build
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import LearnerConfig, RunConfig
from metadrift.runs.loop import go_on, start
from metadrift.runs.record import read_lines
from tiny_runs import assert_same_run, assert_same_state

METADRIFT = Path(sys.executable).with_name("metadrift")


@pytest.fixture
def config(tiny_benchmark):
    return RunConfig(
        benchmark=str(tiny_benchmark),
        ways=3,
        queries=2,
        test_tasks=12,
        stage_tasks=4,
        checkpoint_every=20,
        log_every=5,
        threads=1,
        learn=LearnerConfig(filters=4),
    )


@pytest.mark.slow
def test_a_run_leaves_the_folder_that_the_design_promises(config, tmp_path):
    summary = start(config, tmp_path / "run", quiet=True)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.toml", "benchmark.toml", "metrics.jsonl", "events.jsonl", "summary.json",
        "checkpoints",
    }  # fmt: skip
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    promised = ["method", "learner", "ways", "shots", "seed", "steps", "accuracy", "forgetting"]
    promised += ["worst_domain", "detection", "memory", "timing", "versions", "config_sha256"]
    assert set(promised) <= set(summary)
    assert set(summary["accuracy"]["per_domain"]) == {"dark", "middle", "bright"}
    assert set(summary["detection"]) == {
        "true_changes", "detected", "false_alarms", "mean_delay", "f1",
        "true_domains", "latent_domains", "returns", "recognised", "wrong_labels",
    }  # fmt: skip
    assert {"capacity", "shares_by_true_domain", "min_share", "entropy"} <= set(summary["memory"])
    shares = np.array(list(summary["memory"]["shares_by_true_domain"].values()))
    assert shares.sum() == pytest.approx(1)
    assert summary["memory"]["min_share"] == shares.min()
    some = shares[shares > 0]  # 1 would be three equal shares
    assert summary["memory"]["entropy"] == pytest.approx(-(some @ np.log(some)) / np.log(3))
    assert {"detection", "memory", "replay", "data"} <= set(summary["timing"]["overhead"])
    assert 50e6 < summary["timing"]["peak_rss_bytes"] < 100e9
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(5, 121, 5))
    for key in ("loss", "accuracy", "statistic", "threshold", "latent_domain", "steps_per_s"):
        assert key in lines[-1]
    assert sum(lines[-1]["memory"].values()) == pytest.approx(1)
    assert sum(lines[-1]["sampling"].values()) == pytest.approx(1)
    assert lines[-1]["sampling"].keys() == lines[-1]["memory"].keys()
    events = read_lines(tmp_path / "run" / "events.jsonl")
    assert [e["step"] for e in events if e["event"] == "evaluation"] == [40, 70, 120]


@pytest.mark.slow
def test_a_stage_has_no_more_tasks_than_the_end(config, tmp_path):
    summary = start(replace(config, stage_tasks=100), tmp_path / "run", quiet=True)
    last = summary["accuracy"]["per_domain"]
    assert summary["stages"][-1] == {name: domain["mean"] for name, domain in last.items()}


def test_names_are_drawn_only_where_they_are_watched(config, tmp_path):
    for context in (False, True):
        watching = replace(config, detection=replace(config.detection, context=context))
        tasks = build(watching, tmp_path).stream.batch(0)
        assert (tasks.context is not None) is context


@pytest.mark.slow
def test_a_resumed_run_counts_the_time_from_before(config, tmp_path):
    whole = start(replace(config, method="reservoir"), tmp_path / "run", quiet=True)
    assert whole["timing"]["wall_s"] > 0
    (tmp_path / "run" / "summary.json").unlink()
    again = go_on(tmp_path / "run", quiet=True)  # its last checkpoint is at the end of training
    for name in ("wall_s", "steps_per_s", "overhead"):
        assert again["timing"][name] == pytest.approx(whole["timing"][name])
    assert again["timing"]["overhead"]["replay"] > 0


@pytest.mark.slow
def test_training_and_evaluation_say_how_far_they_are(config, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("metadrift.storage.progress.SECONDS_BETWEEN_LINES", 0.0)
    start(config, tmp_path / "run")
    said = capsys.readouterr().err
    assert "training: 60 of 120 steps, loss" in said
    assert "evaluating: 12 of 12 tasks" in said  # at the end of a segment: 3 domains of 4 tasks
    assert "evaluating: 36 of 36 tasks" in said.splitlines()[-1]


@pytest.mark.slow
def test_the_same_configuration_gives_the_same_run(config, tmp_path):
    for name in ("one", "two"):
        start(config, tmp_path / name, quiet=True)
    assert_same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_another_seed_gives_another_run(config, tmp_path):
    one = start(config, tmp_path / "one", quiet=True)
    two = start(replace(config, seed=1), tmp_path / "two", quiet=True)
    assert one["accuracy"] != two["accuracy"]
    losses = [
        [line["loss"] for line in read_lines(tmp_path / name / "metrics.jsonl")]
        for name in ("one", "two")
    ]
    assert not set(losses[0]) & set(losses[1])  # other tasks and other weights from the first step


# The other methods are killed in tests/reliability, in less time.
@pytest.mark.slow
def test_a_run_killed_at_a_random_step_resumes_to_the_same_bytes(config, tmp_path):
    start(config, tmp_path / "whole", quiet=True)
    killed = tmp_path / "killed"
    words = [METADRIFT, "run", "--config", tmp_path / "whole" / "config.toml", "--out", tmp_path]
    process = subprocess.Popen([*words, "--name", "killed"], stderr=subprocess.DEVNULL)
    metrics = killed / "metrics.jsonl"
    steps = int(np.random.default_rng(9).integers(5, 22))
    wait_for(lambda: metrics.is_file() and len(read_lines(metrics)) >= steps)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "summary.json").exists()
    done = subprocess.run([METADRIFT, "resume", killed, "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout)["method"] == config.method
    assert_same_run(tmp_path / "whole", killed)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_asked_to_stop_saves_itself_and_says_where(number, code, config, tmp_path):
    start(config, tmp_path / "whole", quiet=True)
    words = [METADRIFT, "run", "--config", tmp_path / "whole" / "config.toml", "--out", tmp_path]
    process = subprocess.Popen(
        [*words, "--name", "asked", "--checkpoint-every", "1000"], stderr=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "asked" / "metrics.jsonl"
    wait_for(lambda: metrics.is_file() and len(read_lines(metrics)) >= 4)
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == code
    assert f"metadrift resume {tmp_path / 'asked'}" in said
    assert len(checkpoints(tmp_path / "asked" / "checkpoints")) == 1
    go_on(tmp_path / "asked", quiet=True)
    assert_same_state(tmp_path / "whole", tmp_path / "asked")


@pytest.mark.slow
def test_independent_training_has_a_learner_for_each_domain(config, tmp_path):
    summary = start(replace(config, method="independent"), tmp_path / "run", quiet=True)
    assert summary["steps"] == 120
    assert set(summary["accuracy"]["per_domain"]) == {"dark", "middle", "bright"}
    parts = {path.name for path in (tmp_path / "run" / "domains").iterdir()}
    assert parts == {"dark", "middle", "bright"}
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    assert go_on(tmp_path / "run", quiet=True) == summary


@pytest.mark.slow
def test_an_oracle_is_marked_and_finds_every_change(config, tmp_path):
    summary = start(replace(config, method="balanced-oracle"), tmp_path / "run", quiet=True)
    assert summary["oracle"] is True
    assert (summary["detection"]["detected"], summary["detection"]["false_alarms"]) == (2, 0)
    assert summary["memory"]["min_share"] >= 0.25
    assert start(config, tmp_path / "ours", quiet=True)["oracle"] is False


@pytest.fixture
def returning(config, tiny_benchmark):
    """A stream whose first domain comes back."""
    file = tiny_benchmark.with_name("returning.toml")
    stays = [("dark", 60), ("bright", 60), ("dark", 70)]
    rows = [f'[[segments]]\ndomain = "{d}"\nsteps = {n}\npack = "{d}"' for d, n in stays]
    file.write_text("\n".join(["memory = 8", *rows]))
    detection = DetectionConfig(window=15, burn_in=45)
    return replace(config, benchmark=str(file), detection=detection, stage_tasks=0, test_tasks=4)


@pytest.mark.slow
def test_a_domain_that_comes_back_is_written_down_and_resumed_to_the_same_bytes(
    returning, tmp_path
):
    summary = start(returning, tmp_path / "run", quiet=True)
    found = summary["detection"]
    assert (found["returns"], found["recognised"], found["wrong_labels"]) == (1, 1, 0)
    assert (found["true_domains"], found["latent_domains"]) == (2, 2)
    events = read_lines(tmp_path / "run" / "events.jsonl")
    (back,) = [event for event in events if event["event"] == "returned"]
    assert back["label"] == 0
    assert abs(back["since"] - 120) <= 3
    last = read_lines(tmp_path / "run" / "metrics.jsonl")[-1]
    assert last["latent_domain"] == 0
    assert set(last["memory"]) == {"0", "1"}
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    (tmp_path / "again" / "summary.json").unlink()
    for path in checkpoints(tmp_path / "again" / "checkpoints")[1:]:
        shutil.rmtree(path)  # an earlier one is left, before the return is known
    go_on(tmp_path / "again", quiet=True)
    assert_same_run(tmp_path / "run", tmp_path / "again")


@pytest.mark.slow
def test_an_oracle_knows_a_domain_that_comes_back(returning, tmp_path):
    summary = start(replace(returning, labels="oracle"), tmp_path / "run", quiet=True)
    found = summary["detection"]
    assert (found["detected"], found["recognised"], found["latent_domains"]) == (2, 1, 2)


@pytest.mark.slow
def test_a_learning_rate_far_too_high_ends_in_one_sentence(config, tmp_path):
    high = replace(config, method="mer", baseline=replace(config.baseline, mer_alpha=1e38))
    with pytest.raises(MetadriftError, match=r"became (nan|inf) at step \d+ with learning rate"):
        start(high, tmp_path / "run", quiet=True)
    skipped = start(replace(high, on_nan="skip"), tmp_path / "skip", quiet=True)
    assert skipped["skipped_steps"] > 0


@pytest.mark.slow
def test_a_folder_that_is_taken_is_refused_and_a_finished_run_is_shown_again(config, tmp_path):
    summary = start(config, tmp_path / "run", quiet=True)
    with pytest.raises(MetadriftError, match="metadrift resume"):
        start(config, tmp_path / "run", quiet=True)
    assert go_on(tmp_path / "run", quiet=True) == summary


def test_nothing_is_left_behind_by_a_wrong_benchmark_or_a_missing_pack(tmp_path):
    with pytest.raises(MetadriftError, match="no benchmark"):
        start(RunConfig(benchmark="nonsense"), tmp_path / "run", quiet=True)
    with pytest.raises(MetadriftError, match="metadrift data import quickdraw"):
        start(RunConfig(benchmark="paper", data=tmp_path), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_measuring_the_variance_of_replay_does_not_change_the_run(config, tmp_path):
    start(config, tmp_path / "plain", quiet=True)
    summary = start(replace(config, variance_every=30), tmp_path / "measured", quiet=True)
    assert 0.3 < summary["variance_ratio"] < 1.5
    assert_same_state(tmp_path / "plain", tmp_path / "measured")
    events = read_lines(tmp_path / "measured" / "events.jsonl")
    assert [e["step"] for e in events if e["event"] == "variance"] == [30, 60, 90, 120]


@pytest.mark.slow
def test_a_memory_mapped_buffer_gives_the_same_run(config, tmp_path):
    start(config, tmp_path / "ram", quiet=True)
    mapped = replace(config, memory=replace(config.memory, mapped=True))
    start(mapped, tmp_path / "file", quiet=True)
    assert (tmp_path / "file" / "memory.bin").stat().st_size == 8 * 2 * 3 * 3 * 3 * 12 * 12
    assert_same_state(tmp_path / "ram", tmp_path / "file")


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")


def test_live_curves_are_written_or_their_extra_is_named(config, tmp_path):
    with_board = replace(config, method="reservoir", tensorboard=True, stage_tasks=0)
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(MetadriftError, match=r"metadrift\[tensorboard\]"):
            start(with_board, tmp_path / "run", quiet=True)
    else:
        start(with_board, tmp_path / "run", quiet=True)
        assert list((tmp_path / "run" / "tensorboard").iterdir())


@pytest.fixture
def partly_without_validation(config, tiny_benchmark, tmp_path):
    """The same run on a copy of the benchmark in which "middle" has no validation classes."""
    copy = tmp_path / "packs"
    shutil.copytree(tiny_benchmark.parent, copy)
    pack = copy / "middle" / "pack.json"
    pack.write_text(pack.read_text().replace('"val"', '"train"'))
    return replace(config, benchmark=str(copy / tiny_benchmark.name), split="val")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["reservoir", "independent"])
def test_a_domain_without_validation_classes_is_left_out(
    method, partly_without_validation, tmp_path
):
    config = replace(partly_without_validation, method=method)
    summary = start(config, tmp_path / "run", quiet=True)
    assert set(summary["accuracy"]["per_domain"]) == {"dark", "bright"}
    measured = method == "reservoir"  # independent learners never leave their domain
    for name in ("forgetting", "backward_transfer"):
        assert isinstance(summary[name], float) if measured else summary[name] is None


@pytest.mark.slow
def test_a_learner_that_cannot_change_forgets_exactly_nothing(config, tmp_path):
    # Steps of this size vanish in a float's rounding. There are three times as many final tasks.
    summary = start(replace(config, method="reservoir", lr=1e-30), tmp_path / "run", quiet=True)
    assert summary["stages"][0] == summary["stages"][-1]
    assert summary["forgetting"] == 0.0
    assert summary["backward_transfer"] == 0.0


def test_no_validation_classes_at_all_are_said_before_anything_is_written(
    partly_without_validation, tmp_path
):
    config = replace(partly_without_validation, only="middle")
    with pytest.raises(MetadriftError, match="validation classes"):
        start(config, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_test_stops_when_its_interval_is_narrow_enough(config, tmp_path):
    config = replace(config, method="sequential", test_tasks=220, stage_tasks=0)
    full = start(config, tmp_path / "full", quiet=True)["accuracy"]["per_domain"]
    points = 100 * 1.15 * max(row["ci95"] for row in full.values())  # all stop, and not at once
    short = start(replace(config, test_precision=points), tmp_path / "short", quiet=True)
    for row in short["accuracy"]["per_domain"].values():
        assert row["tasks"] in (50, 100, 150, 200, 220)
        assert 100 * row["ci95"] <= points
    assert min(row["tasks"] for row in short["accuracy"]["per_domain"].values()) < 220
    assert short["settings"]["test_precision"] == points
    same = replace(config, method="reservoir", test_precision=1e-9, test_tasks=60)
    rows = start(same, tmp_path / "same", quiet=True)["accuracy"]["per_domain"].values()
    assert [row["tasks"] for row in rows] == [60, 60, 60]


@pytest.mark.slow
def test_tasks_per_step_stands_for_the_number_of_the_benchmark(config, tiny_benchmark, tmp_path):
    written = tiny_benchmark.with_name("four.toml")
    written.write_text("tasks_per_step = 4\n" + tiny_benchmark.read_text())
    joint = replace(config, method="joint")
    start(replace(joint, benchmark=str(written)), tmp_path / "written", quiet=True)
    start(replace(joint, tasks_per_step=4), tmp_path / "asked", quiet=True)
    assert_same_state(tmp_path / "written", tmp_path / "asked")
    assert "tasks_per_step = 4" in (tmp_path / "asked" / "benchmark.toml").read_text()
