"""Part `detection` of `make bench`: what an update costs, and what it is good for.

First the statistic alone, against recomputation and a plain Scan-B (detection_cost.py); then the
whole detector against kernel detectors of other libraries, an update each in turn; then the F1 of
all on the same streams, river's detectors of one number among them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import detection_cost
import peers
from bench_table import Row
from detection_peers import PEERS
from detection_quality import Score, gaussian_streams
from detectors_beside import Streams, ours, river, scalar
from learner_peers import prepare, serve
from metadrift.detection import Change, DetectionConfig, make_detector
from turns import processes_in_turns, ratio

HERE = Path(__file__).resolve().parent
DIM, B_QUALITY, EVERY = 64, 20, 10_000


def rows(quick: bool) -> list[Row]:
    prepare(1)
    found: list[Row] = []
    for B in (50, 100) if quick else (50, 100, 200, 1000):
        us = detection_cost.measure(B, DIM, 40 if quick else 200)
        for name, key in (("recomputed", "again"), ("plain Scan-B", "scan")):
            note = f"ours {us['one']:.0f} us"
            found.append(Row(f"B = {B}: {name}", f"W {name} / W ours", us[key] / us["one"], note))
    there = {peer: peers.missing(peer) for peer in (*PEERS, "river")}
    for B in (50,) if quick else (50, 100, 200, 1000):
        found += _kernel_peers(B, there, 20 if quick else 100)
    return found + _quality(list(gaussian_streams(0.05, 1 if quick else 3, 0)), there)


def _kernel_peers(B: int, there: dict[str, str], rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "vectors.npy"))
        np.save(file, np.random.default_rng(0).normal(size=(6 * B, DIM)))
        script = str(HERE / "detection_peers.py")
        commands = {"ours": [sys.executable, __file__, str(B), file]}
        if B > 500:
            there = there | {"alibi_detect": "finding its thresholds takes too long"}
        for peer in PEERS:
            if not there[peer]:
                commands[peer] = [peers.python(), script, "time", peer, str(B), file]
        told = processes_in_turns(commands, rounds)
    found = []
    for peer in PEERS:
        reason = there[peer] or told[peer].failed
        value = None if reason else ratio(told[peer].all(), told["ours"].all())
        found.append(
            Row(f"B = {B}: {peer}", f"an update of {peer} / of our detector", value, reason)
        )
    return found


def _quality(streams: Streams, there: dict[str, str]) -> list[Row]:
    """F1 of each on the same streams, as a share of ours."""
    scores, us = {"metadrift": Score()}, {}
    seconds = 0.0
    for vectors, true in streams:
        reports, spent = ours(vectors, "default", B_QUALITY, EVERY)
        scores["metadrift"].add(reports, true, len(vectors))
        seconds += spent
    steps = sum(len(vectors) for vectors, _ in streams)
    us["metadrift"] = 1e6 * seconds / steps
    for peer in PEERS:
        for vectors, true in [] if there[peer] else streams:
            said = _found_by(peer, vectors)
            scores.setdefault(peer, Score()).add(_changes(said["reports"]), true, len(vectors))
            us[peer] = said["us"]
    reads = "distance from the mean"
    for vectors, true in [] if there["river"] else streams:
        for name, (at, spent) in river(scalar(vectors, reads, B_QUALITY)).items():
            scores.setdefault(f"river {name}", Score()).add(_changes(at), true, len(vectors))
            us[f"river {name}"] = 1e6 * spent / len(vectors)
    best = f1(scores["metadrift"])
    absent = [Row(f"F1: {name}", "", None, reason) for name, reason in there.items() if reason]
    return absent + [
        Row(
            f"F1: {name}",
            "F1 of ours / 1" if name == "metadrift" else f"F1 of ours / of {name}",
            best if name == "metadrift" else best / f1(score) if f1(score) else None,
            f"{score.found} of {score.changes} found, {score.false} false, {us[name]:.1f} us",
        )
        for name, score in scores.items()
    ]


def f1(score: Score) -> float:
    missed = score.changes - score.found
    return 2 * score.found / max(2 * score.found + score.false + missed, 1)


def _changes(steps: list[int]) -> list[Change]:
    return [Change(at, at, np.nan, np.nan) for at in steps]


def _found_by(peer: str, vectors: np.ndarray) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "vectors.npy")
        np.save(file, vectors)
        words = [str(HERE / "detection_peers.py"), "find", peer, str(B_QUALITY), str(file)]
        done = subprocess.run([peers.python(), *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(B: int, file: Path) -> None:
    """Our detector in a process of its own, past its burn-in."""
    prepare(1)
    vectors = np.load(file, allow_pickle=False)
    detector = make_detector(DetectionConfig(window=B, burn_in=3 * B))
    detector.update_many(vectors)
    at = 0

    def take() -> dict[str, float]:
        nonlocal at
        at += 1
        vector, begin = vectors[at % len(vectors)], time.perf_counter()
        detector.update(vector)
        return {"ms": 1000 * (time.perf_counter() - begin)}

    serve(take)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
