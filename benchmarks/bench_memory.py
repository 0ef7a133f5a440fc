"""Part `memory` of `make bench`: bytes of the paper's memory, and of a whole process that has it.

The paper keeps 300 batches of two 5-way tasks at 84 px; 5 shots and 10 queries a class here. The
process fills every place, and then takes real steps of m2d3-pets with the paper's network.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_table import Row
from learner_peers import prepare
from metadrift.memory import Buffer
from metadrift.methods.config import MemoryConfig
from metadrift.tasks import TaskGeometry
from workload import fill, noise_run

CAPACITY, SIZE = 300, 84
LIMIT_GB = 3


def rows(quick: bool) -> list[Row]:
    geometry = TaskGeometry(5, 5, 10)
    stored = Buffer(CAPACITY, 2, geometry, 3, SIZE).nbytes
    floats = math.prod((CAPACITY, 2, geometry.images_a_task, 3, SIZE, SIZE)) * 4
    found = [
        Row("buffer", "bytes of a float32 memory / ours", floats / stored, f"{stored / 1e6:.0f} MB")
    ]
    command = [sys.executable, __file__, str(1 if quick else 5)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak = json.loads(done.stdout.splitlines()[-1])["peak_gb"]
    what = f"peak memory of the process / {LIMIT_GB} GB"
    return [*found, Row("whole run", what, peak / LIMIT_GB, f"{peak:.2f} GB")]


def main(steps: int) -> None:
    prepare(1)
    with tempfile.TemporaryDirectory() as folder:
        memory = MemoryConfig(capacity=CAPACITY)
        parts = noise_run(Path(folder), size=SIZE, shots=5, memory=memory)
        fill(parts)
        for _ in range(steps):
            parts.method.step(next(parts.stream))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({"peak_gb": peak}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
