"""Part `memory` of `make bench`: bytes of the paper's memory, and of a whole process that has it.

The paper keeps 300 batches of two 5-way tasks at 84 px, here with 10 queries a class. The process
fills every place, and then takes real steps of m2d3-pets with the paper's network. Mapped: memory
lies in a file, and the system may drop its pages when it needs the room.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_table import Row
from learner_peers import peak_mb, prepare
from metadrift.examples import Pictures
from metadrift.memory import Buffer
from metadrift.methods.config import MemoryConfig
from metadrift.tasks import TaskGeometry
from workload import fill, noise_run

CAPACITY, SIZE = 300, 84
LIMIT_GB = 3


def rows(quick: bool) -> list[Row]:
    found = []
    for shots in (1, 5):
        geometry = TaskGeometry(5, shots, 10)
        stored = Buffer(CAPACITY, 2, geometry, Pictures(SIZE, 3)).nbytes
        floats = math.prod((CAPACITY, 2, geometry.images_per_task, 3, SIZE, SIZE)) * 4
        name, note = f"{shots}-shot", f"{stored / 1e6:.0f} MB"
        found.append(
            Row(f"{name}: buffer", "bytes of a float32 memory / ours", floats / stored, note)
        )
        for kind, mapped, precision in (
            ("whole run", "", "float32"),
            ("whole run, bf16", "", "bf16"),
            ("whole run, mapped", "mapped", "float32"),
        ):
            peak = _peak(shots, 1 if quick else 3, precision, mapped)
            what = f"peak memory of the process / {LIMIT_GB} GB"
            found.append(Row(f"{name}: {kind}", what, peak / LIMIT_GB, f"{peak:.2f} GB"))
    return found


def _peak(shots: int, steps: int, precision: str, mapped: str) -> float:
    command = [sys.executable, __file__, str(shots), str(steps), precision, mapped]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["peak_gb"])


def main(shots: int, steps: int, precision: str, mapped: bool) -> None:
    prepare(1)
    with tempfile.TemporaryDirectory() as folder:
        memory = MemoryConfig(capacity=CAPACITY, mapped=mapped)
        settings = {"memory": memory, "precision": precision}
        parts = noise_run(Path(folder), size=SIZE, shots=shots, **settings)
        fill(parts)
        before = _peak_gb()
        for _ in range(steps):
            parts.method.step(next(parts.stream))
        print(json.dumps({"before_steps_gb": before, "peak_gb": _peak_gb()}))


def _peak_gb() -> float:
    return peak_mb() * 2**20 / 1e9


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], bool(sys.argv[4]))
