"""What one update of W costs: incremental, recomputed, and a plain-Python Scan-B.

    OMP_NUM_THREADS=1 python benchmarks/detection_cost.py

All rivals take the same vectors, in turns within one run, so that a busy machine hits them alike;
the table shows medians and ratios. Recomputation is vectorised numpy over the 2B newest vectors.
Scan-B (Li, Xie, Dai and Song) does the same O(B) work as the incremental form, in plain Python.
"""

from __future__ import annotations

import math
import time
from collections import deque

import numpy as np
import tyro

from metadrift.detection import DetectionConfig, TwoWindowMMD, make_detector, two_window_mmd


class PlainScanB:
    """The same W and the same O(B) sums, in plain Python."""

    def __init__(self, B: int, bandwidth: float) -> None:
        self.B = B
        self.gamma = 1 / (2 * bandwidth**2)
        self.vectors: deque[list[float]] = deque(maxlen=2 * B)
        self.later: deque[float] = deque(maxlen=2 * B)  # kernel values with all later vectors
        self.inside: deque[float] = deque([0.0] * B, maxlen=B)  # pairs within V, B steps back

    def update(self, vector: list[float]) -> float:
        B = self.B
        if len(self.vectors) == 2 * B:
            self.vectors.popleft()
            self.later.popleft()
        for i, other in enumerate(self.vectors):
            if len(self.vectors) - i != B:
                square = sum((a - b) ** 2 for a, b in zip(vector, other, strict=True))
                self.later[i] += math.exp(-self.gamma * square)
        self.vectors.append(vector)
        self.later.append(0.0)
        values = list(self.later)
        before, within = self.inside[0], sum(values[-B:])
        self.inside.append(within)
        if len(values) < 2 * B:
            return math.nan
        return 2 * (2 * before + within - sum(values[:B])) / (B * (B - 1))


def main(steps: int = 200, dim: int = 64, windows: tuple[int, ...] = (50, 100, 200)) -> None:
    """Print the table.

    Parameters
    ----------
    steps
        Timed updates of each rival at each B; Scan-B gets a tenth.
    dim
        D, length of a vector.
    windows
        The B to try.
    """
    print(
        "| B | incremental | recomputed | plain Scan-B | detector | "
        "recomputed / incremental | Scan-B / incremental |"
    )
    print("|---|---|---|---|---|---|---|")
    for B in windows:
        us = measure(B, dim, steps)
        print(
            f"| {B} | {us['one']:.1f} us | {us['again']:.0f} us | "
            f"{us['scan']:.0f} us | {us['all']:.1f} us | {us['again'] / us['one']:.0f} | "
            f"{us['scan'] / us['one']:.0f} |",
            flush=True,
        )


def measure(B: int, dim: int, steps: int) -> dict[str, float]:
    """Median microseconds of an update of each rival; `all` is the whole default detector."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2 * B + steps, dim))
    width = math.sqrt(dim)
    one, scan = TwoWindowMMD(B, width), PlainScanB(B, width)
    detector = make_detector(DetectionConfig(window=B, burn_in=3 * B))
    detector.update_many(rng.normal(size=(4 * B, dim)))
    one.update_many(vectors[: 2 * B])
    for x in vectors[: 2 * B].tolist():
        scan.update(x)
    times: dict[str, list[float]] = {name: [] for name in ("one", "again", "scan", "all")}

    def timed(name: str, start: float) -> None:
        times[name].append(time.perf_counter() - start)

    for t in range(2 * B, 2 * B + steps):
        start = time.perf_counter()
        W = one.update(vectors[t])
        timed("one", start)
        start = time.perf_counter()
        again = two_window_mmd(
            vectors[t - 2 * B + 1 : t - B + 1], vectors[t - B + 1 : t + 1], width
        )
        timed("again", start)
        assert abs(W - again) < 1e-10
        start = time.perf_counter()
        detector.update(vectors[t])
        timed("all", start)
        if t - 2 * B < max(1, steps // 10):
            x = vectors[t].tolist()
            start = time.perf_counter()
            plain = scan.update(x)
            timed("scan", start)
            assert abs(W - plain) < 1e-10
    return {name: 1e6 * float(np.median(values)) for name, values in times.items()}


if __name__ == "__main__":
    tyro.cli(main)
