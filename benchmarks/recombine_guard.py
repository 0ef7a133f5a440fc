"""How often a class meets itself in recombined tasks, for several guards, on packs of one's own.

Sixteen tasks (eight stored batches of two) are drawn from the training classes of a pack, and new
tasks are put together from them. Only this script knows the classes' names.

    python benchmarks/recombine_guard.py data/quickdraw data/omniglot
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from metadrift.data.pack import Pack, open_pack
from metadrift.data.sampler import TaskSampler
from metadrift.replay import recombine
from metadrift.tasks import TaskBatch, TaskGeometry

GUARDS = [None, 0.0, 0.25, 0.5, 0.75]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packs", type=Path, nargs="+")
    parser.add_argument("--stored", type=int, default=16, help="tasks to recombine")
    parser.add_argument("--pools", type=int, default=50, help="memories to draw")
    parser.add_argument("--shots", type=int, default=1)
    parser.add_argument("--queries", type=int, default=10)
    options = parser.parse_args()
    print("Tasks in which a class meets itself / that have the classes of a stored task, percent")
    print("| pack | classes | " + " | ".join(f"guard {guard}" for guard in GUARDS) + " |")
    print("|---|---|" + "---|" * len(GUARDS))
    for path in options.packs:
        pack = open_pack(path)
        cells = [measure(pack, guard, options) for guard in GUARDS]
        print(f"| {pack.name} | {len(pack.classes('train'))} | " + " | ".join(cells) + " |")


def measure(pack: Pack, guard: float | None, options: argparse.Namespace) -> str:
    rng = np.random.default_rng(0)
    sampler = TaskSampler(pack, "train", TaskGeometry(5, options.shots, options.queries))
    met, stored = [], []
    for _ in range(options.pools):
        rows = sampler.choose(options.stored, rng)
        tasks = sampler.gather(rows)
        names = np.searchsorted(pack.class_offsets, rows, side="right") - 1
        known = {frozenset(task) for task in names.tolist()}
        # Recombination moves images and does not change them: their bytes tell where they are from.
        name_of = dict(zip(pixels(tasks), names.flatten().tolist(), strict=True))
        new = recombine(tasks, 8, rng, guard)
        drawn = np.array([name_of[image] for image in pixels(new)]).reshape(8, -1)
        met += [len(set(task)) < 5 for task in drawn.tolist()]
        stored += [frozenset(task) in known for task in drawn.tolist()]
    return f"{100 * np.mean(met):.1f} / {100 * np.mean(stored):.1f}"


def pixels(tasks: TaskBatch) -> list[bytes]:
    return [image.tobytes() for image in tasks.images.flatten(0, 1).numpy()]


if __name__ == "__main__":
    main()
