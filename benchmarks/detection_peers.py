"""Other libraries' kernel detectors, fed one vector at a time; runs without metadrift.

    python detection_peers.py time PEER B VECTORS.npy       answers each line with an update's time
    python detection_peers.py find PEER B VECTORS.npy       prints what it reports, and the seconds

Neither says by itself what to do after a report or how to scale vectors. Both learn the scale of
each dimension from the first 3B vectors of a domain, which are their reference as well, and begin
again with the vectors after each report. alibi-detect finds its own threshold for a false alarm in
500 steps, for which it draws 2,000 samples (the more seldom, the more samples). frouros gives a
distance; its threshold is its mean and six standard deviations over another 2B vectors, as
metadrift's first stage has it, and its kernel is as wide as the median distance.
"""

from __future__ import annotations

import functools
import json
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

from learner_peers import prepare, serve

Update = Callable[[np.ndarray], bool]  # a vector -> whether a change is reported


def alibi_detect(reference: np.ndarray, B: int, every: int) -> Update:
    from alibi_detect.cd import MMDDriftOnline

    detector = MMDDriftOnline(
        reference.astype(np.float32),
        ert=every,
        window_size=B,
        backend="pytorch",
        n_bootstraps=4 * every,
        device="cpu",
        verbose=False,
    )
    return lambda x: bool(detector.predict(x.astype(np.float32))["data"]["is_drift"])


def frouros(reference: np.ndarray, B: int, every: int) -> Update:
    from frouros.detectors.data_drift.streaming import MMD
    from frouros.utils.kernels import rbf_kernel

    some = reference[:200]
    apart = np.linalg.norm(some[:, None] - some[None], axis=2)
    width = float(np.median(apart[np.triu_indices(len(some), 1)]))
    detector = MMD(window_size=B, kernel=functools.partial(rbf_kernel, sigma=width))
    detector.fit(X=reference)
    quiet: list[float] = []
    threshold = np.inf

    def update(x: np.ndarray) -> bool:
        nonlocal threshold
        result, _ = detector.update(value=x)
        if result is None:
            return False
        distance = float(result.distance)
        if len(quiet) < 2 * B:
            quiet.append(distance)
            if len(quiet) == 2 * B:
                threshold = float(np.mean(quiet) + 6 * np.std(quiet))
        return distance > threshold

    return update


PEERS = {"alibi_detect": alibi_detect, "frouros": frouros}


class Watching:
    """Learns from 3B vectors, watches, and after a report begins again."""

    def __init__(self, peer: str, B: int, every: int) -> None:
        self.make, self.B, self.every = PEERS[peer], B, every
        self.first: list[np.ndarray] = []
        self.update: Update | None = None

    def take(self, vector: np.ndarray) -> bool:
        if self.update is None:
            self.first.append(vector)
            if len(self.first) == 3 * self.B:
                sample = np.stack(self.first)
                self.mean, self.std = sample.mean(0), np.maximum(sample.std(0), 1e-100)
                scaled = (sample - self.mean) / self.std
                self.update = self.make(scaled, self.B, self.every)
            return False
        found = self.update((vector - self.mean) / self.std)
        if found:
            self.first, self.update = [], None
        return found


def find(peer: str, B: int, vectors: np.ndarray) -> None:
    """Reports, and the time of the whole stream a vector, with all learning in it."""
    watching = Watching(peer, B, 500)
    watching.make(vectors[: 3 * B], B, 10 * B)  # what is imported and compiled first does not count
    begin = time.perf_counter()
    reports = [step for step, vector in enumerate(vectors) if watching.take(vector)]
    seconds = time.perf_counter() - begin
    print(json.dumps({"reports": reports, "us": 1e6 * seconds / len(vectors)}))


def timed(peer: str, B: int, vectors: np.ndarray) -> None:
    # The lowest rate that alibi-detect accepts: which threshold it is takes no time in an update.
    watching = Watching(peer, B, 2 * B)
    at = 0

    def take() -> dict[str, float]:
        nonlocal at
        at += 1
        vector, begin = vectors[at % len(vectors)], time.perf_counter()
        assert watching.update is not None
        watching.update((vector - watching.mean) / watching.std)
        return {"ms": 1000 * (time.perf_counter() - begin)}

    while at < 5 * B:  # learned, and with full windows
        watching.take(vectors[at % len(vectors)])
        if watching.update is None and at >= 3 * B:
            at = 0
        at += 1
    serve(take)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    prepare(1)
    what, peer, B, file = sys.argv[1:]
    vectors = np.load(file, allow_pickle=False)
    (find if what == "find" else timed)(peer, int(B), vectors)
