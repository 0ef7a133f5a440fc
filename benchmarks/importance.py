"""What tells how hard a stored batch is: its loss, its gradient at the logits or at the embeddings.

m2d3-pets trains on a stream. Every so many steps each stored batch, in the form in which it would
be replayed, has its whole gradient computed. Then for each of the three: its correlation with the
norm of that gradient over the batches in memory, and the variance of the replay gradient over that
of uniform replay, if PETS knew this of each cluster at that moment. `exact` is the norm itself.

    python benchmarks/importance.py --data packs28 --shots 1 --stored
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from metadrift.learners import frozen_statistics, task_gradients
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.runs.build import build
from metadrift.runs.config import from_table

SIGNS = ("loss", "logits", "embeddings", "exact")
UNIFORM = 0.1  # the uniform part of PETS' draws


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=None, help="folder of packs; else the built-in domains")
    parser.add_argument("--learner", default="protonet")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--filters", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=200)
    parser.add_argument("--stored", action="store_true", help="train on tasks as they are stored")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table = {
        "method": "m2d3-pets",
        "benchmark": "builtin" if options.data is None else "paper",
        "queries": 5,
        "learn": {"filters": options.filters},
        "fresh": "off" if options.stored else "all",
    }
    for name in ("learner", "lr", "shots", "scale", "seed"):
        table[name] = getattr(options, name)
    if options.data is not None:
        table["data"] = options.data
    with tempfile.TemporaryDirectory() as folder:
        parts = build(from_table(table, "the options"), Path(folder))
    method, rows = parts.method, []
    assert isinstance(method, M2D3PETS)
    for tasks in parts.stream:
        method.step(tasks)
        if method.steps % options.every == 0 and len(method.memory.counts()) > 1:
            rows.append(measure(method, np.random.default_rng(method.steps)))
    correlation, ratio = np.mean(rows, 0)
    print(f"{options.learner}, {options.shots}-shot, {len(rows)} looks at memory\n")
    print("| known of a batch | correlation with the exact norm | variance of PETS / uniform |")
    print("|---|---|---|")
    for name, c, r in zip(SIGNS, correlation, ratio, strict=True):
        print(f"| {name} | {c:.2f} | {r:.2f} |")


def measure(method: M2D3PETS, rng: np.random.Generator) -> np.ndarray:
    """[2, 4]: correlation and ratio of variances for each of SIGNS, now."""
    memory = method.memory
    labels = [label for label in memory.counts() for _ in memory.slots_of(label)]
    slots = [slot for label in memory.counts() for slot in memory.slots_of(label)]
    gradients, squares = [], []
    for slot in slots:
        tasks = method.fresh_tasks.replayed_by(memory.buffer.get([slot]), rng)
        each = task_gradients(method.learner, tasks)
        gradients.append(each.mean(0).double())
        squares.append([*look(method, tasks), float(gradients[-1].square().sum())])
    squared = np.array(squares)  # [batches, 4]
    n, mean = len(slots), float(torch.stack(gradients).mean(0).square().sum())
    ratios = []
    for sign in squared.T:
        by_cluster = {label: np.mean(sign[np.equal(labels, label)]) for label in set(labels)}
        G = np.sqrt([by_cluster[label] for label in labels])
        q = (1 - UNIFORM) * G / G.sum() + UNIFORM / n
        trace = np.sum(squared[:, -1] / q) / n**2 - mean
        ratios.append(trace / (squared[:, -1].mean() - mean))
    return np.array([np.corrcoef(np.sqrt(squared).T)[-1], ratios])


def look(method: M2D3PETS, tasks: object) -> list[float]:
    """Mean squares over the tasks of loss, gradient at the logits, gradient at the embeddings."""
    with frozen_statistics(method.learner):
        outcome = method.learner(tasks)
    logits = outcome.logits.detach()
    ways = logits.shape[2]
    labels = torch.arange(ways).repeat_interleave(logits.shape[1] // ways)
    slope = (logits.softmax(-1) - F.one_hot(labels, ways)) / logits.shape[1]
    signs = outcome.loss.detach(), slope.flatten(1).norm(dim=1), outcome.importance
    return [float(sign.square().mean()) for sign in signs]


if __name__ == "__main__":
    main()
