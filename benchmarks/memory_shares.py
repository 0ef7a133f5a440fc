"""How each memory policy shares a small memory among domains of very different length.

Nothing is learned: batches are tiny, their importance is made up (a scale for each domain times
log-normal noise), and labels are the true ones, noticed `--delay` steps late. At each step a random
stored batch is replayed, and its importance is observed.

    python benchmarks/memory_shares.py
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch

from metadrift.examples import Pictures
from metadrift.memory import (
    Arrival,
    Buffer,
    LossAwareMemory,
    M2D3Memory,
    Memory,
    ReservoirMemory,
)
from metadrift.tasks import TaskBatch, TaskGeometry

NAMES = ["QD", "Mini", "Omni", "CUB", "Air", "Nec"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--capacity", type=int, default=300, help="batches in memory")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[5000, 2000, 6000, 2000, 2000, 24000]
    )
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0, 1.9, 0.3, 1.4, 0.9, 2.2])
    parser.add_argument("--noise", type=float, default=0.3, help="sigma of log importance")
    parser.add_argument("--delay", type=int, default=70, help="steps until a change is noticed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if len(options.lengths) != len(options.scales):
        parser.error("--lengths and --scales need one number for each domain")

    names = NAMES if len(options.lengths) == 6 else [str(i) for i in range(len(options.lengths))]
    heads = ["rule", *names, f"entropy/log {len(names)}"]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for name, memory in policies(options.capacity, options.seed).items():
        counts = run(memory, options)
        cells = [name, *map(str, counts), f"{entropy(counts):.2f}"]
        print("| " + " | ".join(cells) + " |")


def policies(capacity: int, seed: int) -> dict[str, Memory]:
    def fresh() -> tuple[Buffer, np.random.Generator]:
        geometry = TaskGeometry(ways=2, shots=1, queries=1)
        return Buffer(capacity, 1, geometry, Pictures(4, 1)), np.random.default_rng([seed, 1])

    return {
        "reservoir": ReservoirMemory(*fresh()),
        "loss-aware reservoir": LossAwareMemory(*fresh()),
        "M2D3 as printed": M2D3Memory(*fresh(), mode="paper"),
        "M2D3, beta 0": M2D3Memory(*fresh(), beta=0.0),
        "M2D3, beta .5, kappa .5": M2D3Memory(*fresh()),
    }


def run(memory: Memory, options: argparse.Namespace) -> list[int]:
    """Stored batches of each true domain at the end."""
    truth = np.repeat(np.arange(len(options.lengths)), options.lengths)
    starts = np.cumsum([0, *options.lengths])
    rng = np.random.default_rng([options.seed, 2])
    importance = np.array(options.scales)[truth] * rng.lognormal(0, options.noise, len(truth))
    batch = TaskBatch(torch.zeros(1, 4, 1, 4, 4, dtype=torch.uint8), memory.buffer.geometry)
    label = 0
    for step, domain in enumerate(truth.tolist()):
        if domain > label and step == starts[domain] + options.delay:
            label = domain
            memory.relabel(int(starts[domain]), label)
        if len(memory):
            slot = int(rng.integers(len(memory)))
            memory.observe(int(memory.label[slot]), float(importance[memory.step[slot]]))
        memory.offer(Arrival(batch, label, float(importance[step])))
    stored = truth[memory.step[: len(memory)]]
    return [int((stored == domain).sum()) for domain in range(len(options.lengths))]


def entropy(counts: list[int]) -> float:
    p = np.array([c for c in counts if c]) / sum(counts)
    return float((p * np.log(1 / p)).sum() / math.log(len(counts)))


if __name__ == "__main__":
    main()
