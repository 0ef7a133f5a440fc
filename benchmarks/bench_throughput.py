"""Part `throughput` of `make bench`: runs side by side on all cores, against one run on one core.

`metadrift compare` with as many workers as cores does as many runs, one thread each. Its steps per
second, added up, are compared with those of the same run alone, times the number of cores. The two
take turns.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_table import Row
from metadrift.experiments.local import cores


def rows(quick: bool) -> list[Row]:
    n = cores()
    if n < 2:
        return [Row("compare", "runs on all cores / on one", None, "there is one core")]
    alone, together = [], []
    for turn in range(1 if quick else 3):
        alone.append(_steps_per_s(turn, 1, quick))
        together.append(_steps_per_s(turn, n, quick))
    found = statistics.median(b / (n * a) for a, b in zip(alone, together, strict=True))
    what = f"steps per second of {n} runs at once / {n} times those of one run"
    note = f"{statistics.median(alone):.1f} and {statistics.median(together):.1f} steps per second"
    return [Row("compare", what, found, note)]


def _steps_per_s(seed: int, workers: int, quick: bool) -> float:
    """Of all runs of a comparison together, in training alone."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "metadrift", "compare", "--out", folder, "--json"]
        command += ["--methods", "m2d3-pets", "--workers", str(workers), "--threads", "1"]
        command += ["--seeds", *(str(seed + n) for n in range(workers))]
        command += ["--scale", "0.001" if quick else "0.01", "--queries", "5"]
        command += ["--learn.filters", "32", "--test-tasks", "1", "--stage-tasks", "0"]
        subprocess.run(command, check=True, capture_output=True)
        files = Path(folder).glob("comparison/*/summary.json")
        return sum(json.loads(file.read_text())["timing"]["steps_per_s"] for file in files)
