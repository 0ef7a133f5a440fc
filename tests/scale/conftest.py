import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from metadrift.detection import DetectionConfig
from metadrift.methods.config import MemoryConfig, ReplayConfig, TransformConfig
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import LearnerConfig, RunConfig, to_toml
from metadrift.runs.loop import start
from tiny_runs import write_benchmark, write_domain

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

DARK = ReplayConfig(dark=0.1)


@pytest.fixture(scope="session")
def two_domains(tmp_path_factory):
    """Makes benchmarks of two hard domains that are easily told apart."""
    folder = tmp_path_factory.mktemp("two")
    # Hard to tell apart within a domain: losses stay far from 0.
    write_domain(folder, "dark", 1, 80, contrast=12, noise=40)
    write_domain(folder, "bright", 2, 170, contrast=12, noise=40)

    def write(dark, bright, tasks=4):
        path = folder / f"two-{dark}-{bright}-{tasks}.toml"
        steps = {"dark": dark, "bright": bright}
        return str(write_benchmark(path, steps, memory=6, tasks_per_step=tasks))

    return write


@pytest.fixture(scope="session")
def config(two_domains):
    torch.set_num_threads(1)
    return RunConfig(
        benchmark=two_domains(60, 40),
        method="m2d3-pets",
        ways=3,
        queries=4,
        test_tasks=9,
        stage_tasks=0,
        checkpoint_every=40,
        keep=10,
        log_every=1,
        lr=3e-4,  # larger steps make more of rounding errors
        threads=1,
        learn=LearnerConfig(filters=4),
        detection=DetectionConfig(window=8, burn_in=30),
    )


@pytest.fixture(scope="session")
def configs(config, two_domains):
    short = two_domains(30, 20)
    running = LearnerConfig(filters=4, normalisation="running")
    return {
        "sequential": replace(config, method="sequential", benchmark=short),
        "exact": replace(config, method="sequential", benchmark=short, lr=1e-3),
        "joint": replace(config, method="joint", benchmark=short, learn=running),
        "detecting": config,
        "rehearsing": replace(config, rehearse=0.2),
        "options": replace(
            config,
            benchmark=short,
            replay=ReplayConfig(dark=0.1, balance=True, batches=2),
            transform=TransformConfig(shift=0.1, turn=0.0),
            memory=MemoryConfig(mapped=True, per_process=True),
            stage_tasks=3,
        ),
        "grows": replace(
            config,
            method="reservoir",
            replay=DARK,
            fresh="off",
            memory=MemoryConfig(per_process=True),
        ),
    }


@pytest.fixture(scope="session")
def alone(configs, tmp_path_factory):
    """The runs in one process: name -> folder."""
    root = tmp_path_factory.mktemp("alone")
    for name in ("sequential", "joint", "detecting", "grows", "exact"):
        with float64() if name == "exact" else nullcontext():
            start(configs[name], root / name, quiet=True)
    return {path.name: path for path in root.iterdir()}


@pytest.fixture(scope="session")
def together(configs, alone, tmp_path_factory):
    """The same in two processes; `grows` goes on where one process was stopped at step 40."""
    root = tmp_path_factory.mktemp("together")
    plan = []
    for name in ("sequential", "joint", "detecting", "rehearsing", "options", "exact"):
        file = root / f"{name}.toml"
        file.write_text(to_toml(configs[name]))
        plan.append([str(root / "runs" / name), str(file)])
    stopped_at_40(alone["grows"], root / "runs" / "grows")
    plan.append([str(root / "runs" / "grows"), None])
    (root / "plan.json").write_text(json.dumps(plan))
    command = [*TORCHRUN, str(Path(__file__).with_name("work.py")), str(root / "plan.json")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return {path.name: path for path in (root / "runs").iterdir()}


@pytest.fixture
def in_float64():
    """in_float64(call, ...): what a call returns in double precision."""

    def do(call, *given, **named):
        with float64():
            return call(*given, **named)

    return do


@contextmanager
def float64():
    """Inside, learners are made in double precision, in which rounding decides nothing."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def stopped_at_40(run, copy):
    """A copy of a finished run as it was when its first checkpoint had been written."""
    shutil.copytree(run, copy)
    (copy / "summary.json").unlink()
    for late in checkpoints(copy / "checkpoints")[1:]:
        shutil.rmtree(late)


@pytest.fixture(scope="session")
def stop_early():
    return stopped_at_40
