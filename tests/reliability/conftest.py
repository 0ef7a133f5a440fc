"""A short benchmark, a tiny configuration, and a process that runs commands and kills them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from metadrift.detection.config import DetectionConfig
from metadrift.runs.config import LearnerConfig, RunConfig, to_toml
from tiny_runs import write_benchmark

STEPS = {"dark": 6, "middle": 5, "bright": 6}


@pytest.fixture(scope="session")
def short_benchmark(tiny_benchmark):
    """17 steps over the three tiny domains, memory 6."""
    return write_benchmark(tiny_benchmark.with_name("short.toml"), STEPS, memory=6)


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
        detection=DetectionConfig(window=3, burn_in=9, delta=2.0),
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
