"""One training step of each learner beside the same step written with other tools.

    python benchmarks/learners.py --rounds 20

Every contender has the same weights, images, threads and allocator settings, and lives in a
process of its own. The processes take one step each in turn, so that whatever else the machine
does falls on all alike. Said are medians as ratios to metadrift's step, peak memory of the
process, and the losses, which must agree. `peers.py` installs the libraries.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import peers
from bench_table import Row
from learner_peers import Work, prepare, serve
from metadrift.learners import MetaLearner, make_learner
from metadrift.tasks import TaskBatch, TaskGeometry
from turns import processes_in_turns, ratio

HERE = Path(__file__).resolve().parent
PEERS = ("higher", "learn2learn", "torchopt")
WORKS = {
    "protonet": ("loop", "convolutions"),
    "anil": (*PEERS, "convolutions"),
    "maml": PEERS,
    "ridge": ("loop", "convolutions"),  # the libraries bring nothing of their own for it
}


@dataclass(frozen=True)
class Arguments:
    works: tuple[str, ...] = tuple(WORKS)  # which learners
    rounds: int = 20  # steps of each contender that count
    tasks: int = 4  # tasks a step
    shots: int = 1  # support images a class
    queries: int = 10  # query images a class
    size: int = 28  # pixels
    threads: int = 1  # of torch, in each process
    out: Path | None = None  # a JSON file for the result


def main(arguments: Arguments) -> None:
    a = arguments
    results: dict[str, Any] = {"settings": {k: str(v) for k, v in vars(a).items()}}
    for name in a.works:
        results[name] = compare(a, name)
        show(name, results[name])
    if a.out:
        a.out.write_text(json.dumps(results, indent=1) + "\n")


def rows(quick: bool) -> list[Row]:
    """For `make bench`."""
    found = []
    for name in WORKS:
        compared = compare(Arguments(rounds=2 if quick else 12), name)
        ours = compared.pop("metadrift")
        for contender, each in compared.items():
            value = each.get("ratio")
            what = f"{name} step of {contender} / ours"
            if contender == "convolutions" and value:
                value, what = 1 / value, f"our {name} step / its bare convolutions"
            note = each.get("failed") or f"{each['peak_mb'] / ours['peak_mb']:.2f} of our memory"
            found.append(Row(f"{name}: {contender}", what, value, note))
    return found


def compare(a: Arguments, name: str) -> dict[str, Any]:
    """Of each contender: milliseconds, their ratio to ours, peak memory, loss; or why it failed."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_work(a, name, Path(folder))
        where = [folder, str(a.threads)]
        commands = {"metadrift": [sys.executable, __file__, "serve", name, *where]}
        for contender in WORKS[name]:
            reason = peers.missing(contender) if contender in PEERS else ""
            if reason:
                found[contender] = {"failed": reason}
            else:
                words = [str(HERE / "learner_peers.py"), name, contender, *where]
                commands[contender] = [peers.python(), *words]
        told = processes_in_turns(commands, a.rounds)
    for contender, each in told.items():
        if each.failed:
            found[contender] = {"failed": each.failed}
            continue
        found[contender] = {
            "ms": statistics.median(each.all()),
            "ratio": ratio(each.all(), told["metadrift"].all()),
            "peak_mb": each.end["peak_mb"],
            "loss": each.answers[-1]["loss"],
        }
    return found


def show(name: str, found: dict[str, Any]) -> None:
    print(f"\n{name}: {'ms a step':>22} {'/ metadrift':>12} {'peak MB':>9} {'loss':>9}")
    for contender, row in found.items():
        if "failed" in row:
            print(f"  {contender:<16} left out: {row['failed']}")
            continue
        print(
            f"  {contender:<16}{row['ms']:>12.1f}{row['ratio']:>13.2f}"
            f"{row['peak_mb']:>10.0f}{row['loss']:>10.5f}"
        )


def make(name: str, size: int) -> MetaLearner:
    return make_learner(name, image_size=size, ways=5, generator=0)


def write_work(a: Arguments, name: str, folder: Path) -> None:
    """The weights and the images that every contender reads."""
    learner = make(name, a.size)
    geometry = TaskGeometry(5, a.shots, a.queries)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (a.tasks, geometry.images_per_task, 3, a.size, a.size), np.uint8)
    inner = {
        "inner_steps": getattr(learner, "inner_steps", 0),
        "inner_lr": getattr(learner, "inner_lr", 0.0),
    }
    weights = {k: v.detach().numpy() for k, v in learner.named_parameters()}
    shape = [5, a.shots, a.queries]
    np.savez(folder / "work.npz", images=images, geometry=shape, **inner, **weights)


def serve_metadrift(name: str, folder: Path, threads: int) -> None:
    prepare(threads)
    work = Work(folder)
    learner = make(name, work.images.shape[-1])
    tasks = TaskBatch(work.images, TaskGeometry(work.ways, work.shots, work.queries))

    def step() -> torch.Tensor:
        learner.zero_grad()
        loss = learner(tasks).loss.mean()
        loss.backward()
        return loss

    serve(step)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve_metadrift(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(tyro.cli(Arguments, description=__doc__))
