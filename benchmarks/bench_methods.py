"""Part `methods` of `make bench`: what a step of each method costs, and whether it stays so.

Costs are those of one step on two arriving tasks of 28 px, with a replayed batch of two where the
method replays, and a full memory, beside the step of sequential training, which replays nothing.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench_flatness import BLOCK, block, calibration, last_by_second, small_step
from bench_table import Row
from learner_peers import prepare
from metadrift import registry
from metadrift.methods.config import MemoryConfig
from turns import in_turns, ratio
from workload import noise_run


def rows(quick: bool) -> list[Row]:
    prepare(1)
    with tempfile.TemporaryDirectory() as folder:
        found = _costs(Path(folder, "cost"), 4 if quick else 15)
        return found + _flatness(Path(folder, "flat"), 200 if quick else 1200)


def _costs(folder: Path, rounds: int) -> list[Row]:
    memory = MemoryConfig(capacity=6)
    works = {}
    for name in registry.built_in("methods"):
        parts = noise_run(folder / name, method=name, memory=memory)
        works[name] = lambda parts=parts: parts.method.step(next(parts.stream))
    seconds = in_turns(works, rounds, warm=8)  # the warming fills the memory
    alone = seconds["sequential"]
    return [
        Row(f"{name}: cost", f"a step of {name} / of sequential", ratio(each, alone))
        for name, each in seconds.items()
        if name != "sequential"
    ]


def _flatness(folder: Path, steps: int) -> list[Row]:
    """All methods in turn, a block of steps each."""
    kernel = calibration()
    works = {name: small_step(name, folder / name) for name in registry.built_in("methods")}
    relative: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(steps // BLOCK):
        for name, step in works.items():
            relative[name].append(block(step, kernel))
    return [
        Row(f"{name}: flat", f"last tenth of {steps:,} steps / second tenth", last_by_second(each))
        for name, each in relative.items()
    ]
