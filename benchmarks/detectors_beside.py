"""`metadrift detect` beside river's ADWIN, KSWIN and PageHinkley, on the same streams.

    OMP_NUM_THREADS=1 python benchmarks/detectors_beside.py --data FOLDER_OF_PACKS

river's detectors read one number a step. They are fed two, each in turn: the first principal
component of the vectors, and the distance from their mean, both in units learned from the first
vectors of the stream, as ours learns them. river has its default settings. It runs in a process
and an environment of its own, see peers.py. Times are of one update, without the making of the
vectors or of the number.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import tyro

import peers
from detection_quality import Score, Source, gaussian_streams, real_streams
from metadrift.detection import Change
from metadrift.detection.trace import fitted
from metadrift.detection.twostage import TwoStageDetector

Streams = list[tuple[np.ndarray, list[int]]]  # vectors [steps, D], and where they change

RIVER = r"""
import json, sys, time
import numpy as np
from river import drift
numbers = np.load(sys.argv[1], allow_pickle=False).tolist()
found = {}
for name in ("ADWIN", "KSWIN", "PageHinkley"):
    seeded = {"seed": 0} if name == "KSWIN" else {}
    detector = getattr(drift, name)(**seeded)
    reports, start = [], time.perf_counter()
    for step, number in enumerate(numbers):
        detector.update(number)
        if detector.drift_detected:
            reports.append(step)
    found[name] = [reports, time.perf_counter() - start]
print(json.dumps(found))
"""


def main(
    data: Path | None = None,
    orders: int = 8,
    quiet_steps: int = 20_000,
    window: int = 20,
    every: int = 10_000,
    shots: int = 1,
    seed: int = 0,
) -> None:
    """Print a table for each kind of stream.

    Parameters
    ----------
    data
        A folder of packs, for streams of frozen features of their tasks; without it only synthetic
        vectors.
    orders
        Streams of each kind, six stays each.
    quiet_steps
        Length of a synthetic stream without any change.
    window, every
        Settings of ours: B, and one false alarm in so many steps.
    shots
        Support images a class of the packs' tasks.
    seed
        Other streams.
    """
    torch.set_num_threads(1)
    if reason := peers.missing("river"):
        raise SystemExit(f"river does not install here: {reason}")
    kinds: dict[str, Streams] = {"synthetic vectors": list(gaussian_streams(0.05, orders, seed))}
    normal = np.random.default_rng([seed, 3]).normal(size=(quiet_steps, 16))
    kinds["normal vectors without a change"] = [(normal, [])]
    if data is not None:
        with tempfile.TemporaryDirectory() as cache:
            source = Source(data, Path(cache), seed)
            real = list(real_streams(source, shots, 0.05, orders, variants=False))
        kinds = {f"frozen features of {len(source.packs)} domains": real} | kinds
    for kind, streams in kinds.items():
        table(kind, streams, window, every)


def table(kind: str, streams: Streams, window: int, every: int) -> None:
    steps = sum(len(vectors) for vectors, _ in streams)
    print(f"\n{kind}: {len(streams)} streams, {steps} steps\n")
    print("| detector | reads | found | false alarms | delay | time a sample |")
    print("|---|---|---|---|---|---|")
    modes: tuple[str, ...] = ("default", "fourier")
    for mode in modes:
        score, seconds = Score(), 0.0
        for vectors, true in streams:
            reports, spent = ours(vectors, mode, window, every)
            score.add(reports, true, len(vectors))
            seconds += spent
        print(row(f"metadrift, {mode}", "the vector", score, seconds / steps), flush=True)
    for reads in ("first principal component", "distance from the mean"):
        scores: dict[str, Score] = {}
        spent_by: dict[str, float] = {}
        for vectors, true in streams:
            for name, (steps_found, spent) in river(scalar(vectors, reads, window)).items():
                changes = [Change(at, at, np.nan, np.nan) for at in steps_found]
                scores.setdefault(name, Score()).add(changes, true, len(vectors))
                spent_by[name] = spent_by.get(name, 0.0) + spent
        for name, score in scores.items():
            print(row(f"river {name}", reads, score, spent_by[name] / steps), flush=True)


def row(name: str, reads: str, score: Score, seconds: float) -> str:
    found = f"{score.found} of {score.changes}" if score.changes else "-"
    delay = f"{np.mean(score.delays):.1f}" if score.delays else "-"
    return f"| {name} | {reads} | {found} | {score.false} | {delay} | {1e6 * seconds:.1f} us |"


def ours(vectors: np.ndarray, mode: str, window: int, every: int) -> tuple[list[Change], float]:
    detector = TwoStageDetector(fitted(vectors, mode, window, every))
    reports, start = [], time.perf_counter()
    for vector in vectors:
        if change := detector.update(vector):
            reports.append(change)
    return reports, time.perf_counter() - start


def scalar(vectors: np.ndarray, reads: str, window: int) -> np.ndarray:
    """[steps, D] to [steps], in units of the first six windows."""
    first = vectors[: 6 * window]
    z = (vectors - first.mean(0)) / np.maximum(first.std(0), 1e-100)
    if reads == "distance from the mean":
        number = np.linalg.norm(z, axis=1)
    else:
        _, _, directions = np.linalg.svd(z[: len(first)], full_matrices=False)
        number = z @ directions[0]
    return (number - number[: len(first)].mean()) / number[: len(first)].std()


def river(numbers: np.ndarray) -> dict[str, tuple[list[int], float]]:
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "numbers.npy"), numbers)
        words = [peers.python(), "-c", RIVER, str(Path(folder, "numbers.npy"))]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, tuple[list[int], float]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    tyro.cli(main)
