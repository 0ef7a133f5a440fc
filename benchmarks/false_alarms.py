"""Whether `--false-alarm-every N` keeps its word: streams without a change, and the alarms on them.

    OMP_NUM_THREADS=1 python benchmarks/false_alarms.py --every 10000 100000 --steps 2000000
    OMP_NUM_THREADS=1 python benchmarks/false_alarms.py --data FOLDER_OF_PACKS --steps 300000

Every stream is drawn from one distribution, so every report is false. The settings come from the
stream's own first vectors, as in `metadrift detect`. The interval is the exact Poisson one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import tyro
from scipy.stats import chi2

from detection_quality import Source
from metadrift.detection.trace import fitted
from metadrift.detection.twostage import TwoStageDetector

Draw = Callable[[int, np.random.Generator], np.ndarray]  # how many vectors, from where

MIXING = np.random.default_rng(5).normal(size=(40, 40))
SYNTHETIC: dict[str, Draw] = {
    "normal, D = 1": lambda n, rng: rng.standard_normal((n, 1)),
    "normal, D = 4": lambda n, rng: rng.standard_normal((n, 4)),
    "normal, D = 64": lambda n, rng: rng.standard_normal((n, 64)),
    "exponential, D = 8": lambda n, rng: rng.exponential(size=(n, 8)),
    "Student t, 4 degrees, correlated, D = 40": lambda n, rng: rng.standard_t(4, (n, 40)) @ MIXING,
}


def main(
    every: tuple[int, ...] = (10_000, 100_000),
    windows: tuple[int, ...] = (20, 50),
    modes: tuple[str, ...] = ("default",),
    steps: int = 2_000_000,
    stream: int = 50_000,
    data: Path | None = None,
    shots: int = 5,
    seed: int = 0,
) -> None:
    """Print a table row for each kind of vectors, mode, window and N.

    Parameters
    ----------
    every
        The N to ask for.
    windows
        The B to try.
    modes
        default, fourier, or both.
    steps
        Steps of each row in all.
    stream
        Steps of one stream; each has a burn-in and settings of its own.
    data
        A folder of packs: frozen features of their tasks in place of synthetic vectors.
    shots
        Support images a class of the packs' tasks.
    seed
        Other streams.
    """
    print("| vectors | mode | B | asked for, N | steps | false alarms | measured N |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        kinds = SYNTHETIC if data is None else features(data, Path(cache), shots, seed, steps)
        for name, draw in kinds.items():
            for mode in modes:
                for B in windows:
                    for n in every:
                        print(row(name, draw, mode, B, n, steps, stream, seed), flush=True)


def row(
    name: str, draw: Draw, mode: str, B: int, every: int, steps: int, stream: int, seed: int
) -> str:
    found = sum(
        false_alarms(draw, mode, B, every, min(stream, steps), [seed, part])
        for part in range(max(1, steps // stream))
    )
    done = max(1, steps // stream) * min(stream, steps)
    least = 2 * done / chi2.ppf(0.975, 2 * found + 2)
    most = f"{2 * done / chi2.ppf(0.025, 2 * found):,.0f}" if found else "-"
    measured = f"{done / found:,.0f} ({least:,.0f} to {most})" if found else f"above {least:,.0f}"
    return f"| {name} | {mode} | {B} | {every:,} | {done:,} | {found} | {measured} |"


def false_alarms(draw: Draw, mode: str, B: int, every: int, steps: int, seed: list[int]) -> int:
    """Reports on one stream of `steps` vectors in which nothing changes."""
    rng = np.random.default_rng(seed)
    first = draw(6 * B, rng)
    detector = TwoStageDetector(fitted(first, mode, B, every, seed[-1]))
    reports = len(detector.update_many(first))
    for part in parts(steps - len(first)):
        reports += len(detector.update_many(draw(part, rng)))
    return reports


def parts(steps: int, most: int = 5000) -> Iterator[int]:
    for start in range(0, steps, most):
        yield min(most, steps - start)


def features(data: Path, cache: Path, shots: int, seed: int, steps: int) -> dict[str, Draw]:
    """Frozen features of each pack's tasks, drawn once and then in random order: no two alike."""
    torch.set_num_threads(1)
    source = Source(data, cache, seed)
    kinds: dict[str, Draw] = {}
    for number, pack in enumerate(source.packs):
        vectors = source.draw(number, "plain", shots, min(steps, 20_000), part=1)
        kinds[pack.name] = lambda n, rng, vectors=vectors: vectors[rng.choice(len(vectors), n)]
    return kinds


if __name__ == "__main__":
    tyro.cli(main)
