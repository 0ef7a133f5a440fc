"""What the parts of `make bench` compare is the same work, and they run at tiny sizes."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import bench_growth
import bench_memory
import bench_startup
from bench_flatness import last_by_second, small_step
from metadrift.detection import DetectionConfig, two_window_mmd
from metadrift.learners import make_learner
from metadrift.methods.config import MemoryConfig
from metadrift.runs.config import LearnerConfig
from plain_step import PlainStep, plain_mmd
from turns import in_turns, processes_in_turns, ratio
from workload import fill, noise_run


@pytest.fixture
def plain(make_tasks):
    learner = make_learner("protonet", image_size=16, ways=3, filters=4, generator=0)
    stored = [[make_tasks(2, seed=9).images] for _ in range(2)]
    state = {k: v.detach().clone() for k, v in learner.named_parameters()}
    return learner, PlainStep(state, ways=3, shots=2, window=4, clusters=stored)


def test_the_plain_step_computes_the_loss_and_gradient_norm_of_ours(plain, make_tasks):
    learner, step = plain
    tasks = make_tasks(2, seed=1)
    pixels = tasks.images.float() / 127.5 - 1
    losses = torch.stack([step.task(step.net, task)[0] for task in pixels])
    torch.testing.assert_close(losses, learner(tasks).loss, rtol=1e-4, atol=1e-5)
    learner(make_tasks(2, seed=9)).loss.mean().backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in learner.parameters()])
    step.refresh(0, batches=1)
    assert step.norms[0] == pytest.approx(float(norm), rel=1e-3)


def test_the_plain_step_trains_and_keeps_the_statistic(plain, make_tasks):
    _, step = plain
    tasks = make_tasks(2, seed=1).images
    losses = [step.step(tasks).item() for _ in range(20)]
    assert losses[-1] < losses[0]
    assert np.isfinite(step.statistic)


def test_the_plain_statistic_is_the_two_window_statistic():
    u, v = np.random.default_rng(0).normal(size=(2, 10, 3))
    found = plain_mmd(torch.from_numpy(u), torch.from_numpy(v), 1.5)
    assert found == pytest.approx(two_window_mmd(u, v, 1.5), abs=1e-12)


def test_a_filled_run_has_a_full_memory_of_clusters_and_a_detector_that_watches(tmp_path):
    parts = noise_run(
        tmp_path,
        size=12,
        queries=2,
        learn=LearnerConfig(filters=4),
        memory=MemoryConfig(capacity=10),
        detection=DetectionConfig(window=15, burn_in=45),
    )
    fill(parts, clusters=3)
    assert parts.method.memory.full
    assert len(parts.method.memory.counts()) == 3
    assert np.isfinite(parts.method.step(next(parts.stream)).extra["statistic"])


def test_a_small_step_goes_through_the_stream_and_replays(tmp_path):
    step = small_step("m2d3-pets", tmp_path)
    records = [step() for _ in range(4)]
    assert len({record.loss for record in records}) == 4
    assert np.isfinite([record.replay_loss for record in records[1:]]).all()


def test_flatness_compares_the_last_tenth_with_the_second():
    blocks = [9.0] * 10 + [2.0] * 10 + [5.0] * 70 + [3.0] * 10
    assert last_by_second(blocks) == 1.5


def test_exponents_are_those_of_the_curve():
    assert bench_growth.exponent([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2.0)


def test_turns_are_interleaved_and_warming_does_not_count():
    order = []
    works = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = in_turns(works, rounds=2, warm=1)
    assert order == list("ababab")
    assert [len(each) for each in seconds.values()] == [2, 2]
    assert ratio([2.0, 9.0, 4.0], [1.0, 1.0, 2.0]) == 2.0


def test_processes_take_turns_and_one_that_fails_is_named():
    good = (
        "import sys\nprint('ready', flush=True)\n"
        "for n, _ in enumerate(sys.stdin): print('{\"ms\": %d}' % n, flush=True)\n"
        "print('{\"peak_mb\": 1}')"
    )
    bad = "raise SystemExit('this one has no compiler')"
    commands = {name: [sys.executable, "-c", text] for name, text in (("a", good), ("b", bad))}
    told = processes_in_turns(commands, rounds=2, warm=1)
    assert told["a"].all() == [1.0, 2.0]
    assert told["a"].end == {"peak_mb": 1}
    assert told["b"].failed == "this one has no compiler"


def test_start_up_and_the_bytes_of_the_memory_are_measured(monkeypatch):
    assert {row.name for row in bench_startup.rows(quick=True)} >= {"help", "open a pack"}
    monkeypatch.setattr(bench_memory, "_peak", lambda *_: 1.5)
    ratios = {row.name: row.ratio for row in bench_memory.rows(quick=True)}
    assert ratios["5-shot: buffer"] == 4.0
    assert ratios["5-shot: whole run"] == 0.5
