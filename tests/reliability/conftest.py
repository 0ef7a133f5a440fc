"""A short benchmark, a tiny configuration, and a process that runs commands and kills them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from metadrift.detection.config import DetectionConfig
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import LearnerConfig, RunConfig, to_toml
from metadrift.runs.record import read_lines

STEPS = (("dark", 6), ("middle", 5), ("bright", 6))


@pytest.fixture(scope="session")
def short_benchmark(tiny_benchmark):
    """17 steps over the three tiny domains, memory 6."""
    lines = ["memory = 6"]
    for name, steps in STEPS:
        lines += ["[[segments]]", f'domain = "{name}"', f"steps = {steps}", f'pack = "{name}"']
    path = tiny_benchmark.with_name("short.toml")
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="session")
def config(short_benchmark):
    return RunConfig(
        benchmark=str(short_benchmark),
        ways=3,
        queries=2,
        test_tasks=4,
        stage_tasks=2,
        checkpoint_every=3,
        log_every=2,
        threads=1,
        learn=LearnerConfig(filters=4, inner_steps=2),
        detection=DetectionConfig(window=3, burn_in=9, refractory=3, delta=2.0),
    )


class Driver:
    def __init__(self, folder, config):
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("driver.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._order({"words": self._run(folder, config, "first")})

    def __call__(self, folder, *words, sabotage=None):
        """Run a command with something going wrong; gives its exit code and what it said."""
        said = folder / "said.txt"
        self._order({"words": [*map(str, words)], "sabotage": sabotage, "said": str(said)})
        code = int(self._process.stdout.readline())
        return code, said.read_text(encoding="utf-8", errors="replace")

    def run(self, folder, config, name, sabotage=None):
        """`metadrift run` of a configuration into folder/name."""
        return self(folder, *self._run(folder, config, name), sabotage=sabotage)

    def resume(self, folder, name, sabotage=None):
        return self(folder, "resume", folder / name, "--json", sabotage=sabotage)

    def _run(self, folder, config, name):
        file = folder / f"{name}.toml"
        file.write_text(to_toml(config), encoding="utf-8")
        return ["run", "--config", str(file), "--out", str(folder), "--name", name, "--json"]

    def _order(self, order):
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def driver(tmp_path_factory, config):
    started = Driver(tmp_path_factory.mktemp("driver"), config)
    yield started
    started.close()


@pytest.fixture(scope="session")
def same_run():
    """Asserts that two runs ended with the same numbers, bit for bit."""
    return assert_same_run


def assert_same_run(one, two):
    homes = [path.parent.relative_to(one) for path in one.rglob("summary.json")]
    assert homes == [path.parent.relative_to(two) for path in two.rglob("summary.json")]
    for home in homes:
        first, second = (_numbers(folder / home) for folder in (one, two))
        assert first == second


def _numbers(folder):
    """Summary, weights, optimiser, memory, detector and curves, without what the clock says."""
    summary = json.loads((folder / "summary.json").read_text())
    summary = {key: value for key, value in summary.items() if key != "timing"}
    lines = [
        {key: value for key, value in line.items() if key != "steps_per_s"}
        for line in read_lines(folder / "metrics.jsonl")
    ]
    saved = checkpoints(folder / "checkpoints")
    tensors = load_file(saved[-1] / "tensors.safetensors") if saved else {}
    return summary, lines, {name: value.tobytes() for name, value in tensors.items()}
