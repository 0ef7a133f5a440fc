"""Commands in forked children of one process, tests/reliability/driver.py, which sabotages them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from metadrift.detection.config import DetectionConfig
from metadrift.runs.config import LearnerConfig, RunConfig, to_toml

STEPS = {"dark": 6, "middle": 5, "bright": 6}


def short_config(benchmark):
    """A run of a fraction of a second on a benchmark of STEPS, with five checkpoints."""
    return RunConfig(
        benchmark=str(benchmark),
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
        # Strict, as in most terminals: a name that cannot be encoded is an error.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8:strict"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "reliability" / "driver.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._order({"words": self._run(folder, config, "first")})

    def __call__(self, folder, *words, sabotage=None, limit=None):
        """Run a command with something going wrong; gives its exit code and what it said.

        One that takes longer than `limit` seconds is killed, and is a TimeoutError.
        """
        said = folder / "said.txt"
        order = {"words": [*map(str, words)], "sabotage": sabotage, "said": str(said)}
        self._order(order | {"folder": str(folder), "limit": limit})
        answer = self._process.stdout.readline().strip()
        text = said.read_text(encoding="utf-8", errors="replace")
        if answer == "late":
            raise TimeoutError(f"{words} took more than {limit} s: {text[-500:]}")
        return int(answer), text

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
