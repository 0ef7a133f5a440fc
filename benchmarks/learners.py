"""One training step of each learner beside the same step written with other tools.

    python benchmarks/learners.py --rounds 20

Every contender has the same weights, images, threads and allocator settings, and lives in a
process of its own. The processes take one step each in turn, so that whatever else the machine
does falls on all alike. Said are medians as ratios to metadrift's step, peak memory of the
process, and the losses, which must agree (in bf16 to its digits). Peers run in float32, as their
users run them, and beside that inside torch.autocast. `peers.py` installs the libraries.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import tyro

import peers
from bench_table import Row
from learner_peers import IN_BF16, LIMIT, Work, prepare, serve
from metadrift.learners import MetaLearner, make_learner
from metadrift.learners.base import Precision
from metadrift.tasks import TaskBatch, TaskGeometry
from turns import bf16_ratio, processes_in_turns, ratio

HERE = Path(__file__).resolve().parent
PEERS = ("higher", "torchopt")  # learn2learn does not build on Python 3.11
OURS, BF16 = "metadrift", "metadrift in bf16"
INNER = [f"{peer}{how}" for peer in PEERS for how in ("", IN_BF16)]
WORKS = {
    "protonet": ["loop", "convolutions", LIMIT],
    "anil": [*INNER, "convolutions"],
    "maml": INNER,
    "ridge": ["loop", "convolutions"],  # the libraries bring nothing of their own for it
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
        ours, mixed = compared.pop(OURS), compared.pop(BF16)
        limit = compared.pop(LIMIT, None)
        if limit is not None and mixed["bf16"][0]:
            value = compared["convolutions"]["ratio"] / limit["ratio"]
            what = "bare convolutions in float32 / in bf16"
            found.append(Row(f"{name}: bf16 limit", what, value))
        found.append(Row(f"{name}: bf16", f"our {name} step in float32 / in bf16", *mixed["bf16"]))
        for contender, each in compared.items():
            value = each.get("ratio")
            what = f"{name} step of {contender} / ours"
            if contender == "convolutions" and value:
                value, what = 1 / value, f"our {name} step / its bare convolutions"
            note = each.get("failed") or f"{each['peak_mb'] / ours['peak_mb']:.2f} of our memory"
            found.append(Row(f"{name}: {contender}", what, value, note))
            if contender in PEERS:
                value = each.get("to_bf16") if mixed["bf16"][0] else None
                what = f"{name} step of {contender} in float32 / ours in bf16"
                found.append(Row(f"{name}: {contender}, ours in bf16", what, value))
    return found


def compare(a: Arguments, name: str) -> dict[str, Any]:
    """Of each contender: milliseconds, their ratio to ours, peak memory, loss; or why it failed."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_work(a, name, Path(folder))
        where = [folder, str(a.threads)]
        serve_us = [sys.executable, __file__, "serve", name, *where]
        commands = {OURS: [*serve_us, "float32"], BF16: [*serve_us, "bf16"]}
        for contender in WORKS[name]:
            peer = contender.removesuffix(IN_BF16)
            reason = peers.missing(peer) if peer in PEERS else ""
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
            "ratio": ratio(each.all(), told[OURS].all()),
            "to_bf16": ratio(each.all(), told[BF16].all()),
            "peak_mb": each.end["peak_mb"],
            "loss": each.answers[-1]["loss"],
        }
    found[BF16]["bf16"] = bf16_ratio(told[OURS].all(), told[BF16].all())
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


def make(name: str, size: int, precision: Precision = "float32") -> MetaLearner:
    return make_learner(name, image_size=size, ways=5, generator=0, precision=precision)


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


def serve_metadrift(name: str, folder: Path, threads: int, precision: Precision) -> None:
    prepare(threads)
    work = Work(folder)
    learner = make(name, work.images.shape[-1], precision)
    tasks = TaskBatch(work.images, TaskGeometry(work.ways, work.shots, work.queries))

    def step() -> torch.Tensor:
        learner.zero_grad()
        loss = learner(tasks).loss.mean()
        loss.backward()
        return loss

    serve(step)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        name, folder, threads, precision = sys.argv[2:]
        serve_metadrift(name, Path(folder), int(threads), cast(Precision, precision))
    else:
        main(tyro.cli(Arguments, description=__doc__))
