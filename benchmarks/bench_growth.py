"""Part `growth` of `make bench`: how the cost of a step grows with what one can choose.

One thing is changed at a time, from 5 ways, 1 shot, 28 px, a memory of 60 batches, 4 latent domains
and B = 50. The exponent is the slope of a straight line through the logarithms: 1 is in proportion,
0 is no growth. For capacity, clusters and B it is the exponent of the part that they belong to,
memory and replay or detection, since next to nothing of a whole step depends on them.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench_table import Row
from learner_peers import prepare
from metadrift.detection import DetectionConfig
from metadrift.methods.config import MemoryConfig
from metadrift.runs.config import LearnerConfig
from workload import fill, noise_run

OUT = Path(__file__).resolve().parent.parent / ".bench" / "growth.json"
VALUES: dict[str, tuple[int, ...]] = {
    "ways": (2, 5, 10, 20),
    "shots": (1, 5, 10, 20),
    "image size": (14, 28, 56, 84),
    "capacity": (30, 120, 480, 1920),
    "clusters": (1, 4, 16, 48),
    "B": (25, 50, 100, 200, 400),
}
PART_OF = {"capacity": ("memory", "replay"), "clusters": ("memory", "replay"), "B": ("detection",)}


def rows(quick: bool) -> list[Row]:
    prepare(1)
    found, curves = [], {}
    for name, values in VALUES.items():
        with tempfile.TemporaryDirectory() as folder:
            curve = _curve(name, values[:3] if quick else values, Path(folder), 3 if quick else 12)
        curves[name] = curve
        slope = exponent(curve["values"], curve["ms"])
        what = "exponent of " + " and ".join(PART_OF.get(name, ("the whole step",)))
        least, most = curve["ms"][0], curve["ms"][-1]
        note = f"{least:.3g} ms at {values[0]}, {most:.3g} ms at {curve['values'][-1]}"
        found.append(Row(name, what, slope, note))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(curves, indent=1) + "\n")
    draw(curves, OUT.with_suffix(".png"))
    return found


def exponent(values: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(values), np.log(times), 1)[0])


def _curve(name: str, values: tuple[int, ...], folder: Path, rounds: int) -> dict[str, Any]:
    """Milliseconds at each value; all values take a step in turn."""
    steps = [_step(name, value, folder / str(value)) for value in values]
    times: list[list[dict[str, float]]] = [[] for _ in values]
    for turn in range(rounds + 2):
        for at, step in enumerate(steps):
            each = step()
            if turn >= 2:
                times[at].append(each)
    median = {
        kind: [1000 * statistics.median(each[kind] for each in one) for one in times]
        for kind in ("whole", "part")
    }
    chosen = "part" if name in PART_OF else "whole"
    return {"values": list(values), "ms": median[chosen], "whole_ms": median["whole"]}


def _step(name: str, value: int, folder: Path) -> Callable[[], dict[str, float]]:
    chosen = {"ways": 5, "shots": 1, "image size": 28, "capacity": 60, "clusters": 4, "B": 50}
    chosen[name] = value
    parts = noise_run(
        folder,
        size=chosen["image size"],
        ways=chosen["ways"],
        shots=chosen["shots"],
        queries=5 if name in ("ways", "shots", "image size") else 1,
        learn=LearnerConfig(filters=32 if name in ("ways", "shots", "image size") else 4),
        memory=MemoryConfig(capacity=chosen["capacity"]),
        detection=DetectionConfig(window=chosen["B"], burn_in=3 * chosen["B"]),
    )
    fill(parts, chosen["clusters"])
    method = parts.method

    def step() -> dict[str, float]:
        before = dict(method.clock.seconds)
        begin = time.perf_counter()
        method.step(next(parts.stream))
        whole = time.perf_counter() - begin
        kinds = PART_OF.get(name, ())
        part = sum(method.clock.seconds[k] - before.get(k, 0.0) for k in kinds)
        return {"whole": whole, "part": part}

    return step


def draw(curves: dict[str, Any], file: Path) -> None:
    """A panel for each thing that grows, with the line that was fitted."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10, 6))
    for axis, (name, curve) in zip(axes.flat, curves.items(), strict=True):
        x, y = np.array(curve["values"], float), np.array(curve["ms"])
        slope = exponent(curve["values"], curve["ms"])
        middle = math.exp(np.log(y).mean() - slope * np.log(x).mean())
        axis.loglog(x, middle * x**slope, color="0.6", linewidth=1)
        axis.loglog(x, y, "o", color="#00796b")
        part = " + ".join(PART_OF.get(name, ("whole step",)))
        axis.set_title(f"{name}: exponent {slope:.2f}", fontsize=10)
        axis.set_ylabel(f"{part}, ms", fontsize=8)
        axis.set_xticks(x, [f"{v:g}" for v in x])
        axis.minorticks_off()
        axis.set_yticks([y.min(), y.max()] if y.max() > 1.5 * y.min() else [y.mean()])
        axis.yaxis.set_major_formatter(lambda v, _: f"{v:.0f}" if v >= 100 else f"{v:.2g}")
        axis.set_ylim(y.min() / 3, y.max() * 3)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)
