"""Part `flatness` of `make bench`: does a step take longer when many have gone before it?

Small steps of m2d3-pets with a full memory. After each of them the same fixed piece of work is
timed, and what counts is the ratio of the two, so that a machine that slows down is not mistaken
for a step that does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench_table import Row
from learner_peers import prepare
from metadrift.detection import DetectionConfig
from metadrift.methods.config import MemoryConfig
from metadrift.runs.config import LearnerConfig
from workload import noise_run

BLOCK = 10  # steps that are timed as one, with as many calibrations between them
SMALL: dict[str, Any] = {
    "size": 12,
    "queries": 2,
    "learn": LearnerConfig(filters=4),
    "memory": MemoryConfig(capacity=60),
    "detection": DetectionConfig(window=20, burn_in=60),
}


def rows(quick: bool) -> list[Row]:
    prepare(1)
    steps = 1200 if quick else 20_000
    with tempfile.TemporaryDirectory() as folder:
        step = small_step("m2d3-pets", Path(folder))
        kernel = calibration()
        relative = [block(step, kernel) for _ in range(steps // BLOCK)]
    found = last_by_second(relative)
    return [Row("m2d3-pets", f"last tenth of {steps:,} steps / second tenth", found)]


def small_step(method: str, folder: Path) -> Callable[[], object]:
    """One step of a method whose memory and windows are full before the second tenth begins."""
    parts = noise_run(folder, method=method, **SMALL)
    return lambda: parts.method.step(next(parts.stream))


def calibration() -> Callable[[], object]:
    """Convolutions and small tensors, forward and backward: what a step is made of."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, 12, 12, generator=generator)
    kernel = torch.randn(4, 4, 3, 3, generator=generator, requires_grad=True)

    def work() -> None:
        for _ in range(4):
            y = torch.nn.functional.conv2d(x, kernel, padding=1).relu().mean((2, 3))
            y.square().sum().backward()

    return work


def block(step: Callable[[], object], kernel: Callable[[], object]) -> float:
    """Seconds of some steps over seconds of as many calibrations between them."""
    spent = [0.0, 0.0]
    for _ in range(BLOCK):
        for which, work in enumerate((step, kernel)):
            begin = time.perf_counter()
            work()
            spent[which] += time.perf_counter() - begin
    return spent[0] / spent[1]


def last_by_second(blocks: list[float]) -> float:
    """The median of the last tenth over that of the second."""
    tenth = len(blocks) // 10
    last, second = blocks[-tenth:], blocks[tenth : 2 * tenth]
    return statistics.median(last) / statistics.median(second)
