"""One training step of each learner beside the same step written with other tools.

    python benchmarks/learners.py --rounds 20

Every contender has the same weights, images, threads and allocator settings, and lives in a
process of its own. The processes take one step each in turn, so that whatever else the machine
does falls on all alike. Said are medians as ratios to metadrift's step, peak memory of the
process, and the losses, which must agree. `higher` and `learn2learn` go into .bench/venv.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from learner_peers import Work, prepare, serve
from metadrift.learners import MetaLearner, make_learner
from metadrift.tasks import TaskBatch, TaskGeometry

HERE = Path(__file__).resolve().parent
PEERS = ("higher", "learn2learn")
WORKS = {
    "protonet": ("loop", "convolutions"),
    "anil": (*PEERS, "convolutions"),
    "maml": PEERS,
}


@dataclass(frozen=True)
class Arguments:
    works: tuple[str, ...] = ("protonet", "anil", "maml")  # which learners
    rounds: int = 20  # steps of each contender that count
    tasks: int = 4  # tasks a step
    shots: int = 1  # support images a class
    queries: int = 10  # query images a class
    size: int = 28  # pixels
    threads: int = 1  # of torch, in each process
    venv: Path = HERE.parent / ".bench" / "venv"  # where the peers are installed
    out: Path | None = None  # a JSON file for the result


def main(arguments: Arguments) -> None:
    a = arguments
    there = install_peers(a.venv)
    results: dict[str, Any] = {"settings": {k: str(v) for k, v in vars(a).items()}}
    for name in a.works:
        with tempfile.TemporaryDirectory() as folder:
            write_work(a, name, Path(folder))
            contenders = [c for c in WORKS[name] if c not in PEERS or c in there]
            results[name] = compare(a, name, contenders, Path(folder))
        show(name, results[name])
    if a.out:
        a.out.write_text(json.dumps(results, indent=1) + "\n")


def compare(a: Arguments, name: str, contenders: list[str], folder: Path) -> dict[str, Any]:
    peers_python = str(a.venv / "bin" / "python")
    processes = {"metadrift": start([sys.executable, __file__, "serve", name], folder, a.threads)}
    for contender in contenders:
        command = [peers_python, str(HERE / "learner_peers.py"), name, contender]
        processes[contender] = start(command, folder, a.threads)
    answers: dict[str, list[dict[str, float]]] = {c: [] for c in processes}
    for _ in range(a.rounds + 3):  # the first three warm up
        for contender, process in processes.items():
            answers[contender].append(ask(process))
    found = {}
    for contender, process in processes.items():
        times = [answer["ms"] for answer in answers[contender][3:]]
        peak = json.loads(process.communicate()[0].splitlines()[-1])["peak_mb"]
        loss = answers[contender][-1]["loss"]
        found[contender] = {"ms": statistics.median(times), "peak_mb": peak, "loss": loss}
    return found


def start(command: list[str], folder: Path, threads: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*command, str(folder), str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise SystemExit(f"{' '.join(command)} did not start")
    return process


def ask(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("step\n")
    process.stdin.flush()
    answer: dict[str, float] = json.loads(process.stdout.readline())
    return answer


def show(name: str, found: dict[str, dict[str, float]]) -> None:
    ours = found["metadrift"]["ms"]
    print(f"\n{name}: {'ms a step':>22} {'/ metadrift':>12} {'peak MB':>9} {'loss':>9}")
    for contender, row in found.items():
        ratio = row["ms"] / ours
        print(
            f"  {contender:<16}{row['ms']:>12.1f}{ratio:>13.2f}"
            f"{row['peak_mb']:>10.0f}{row['loss']:>10.5f}"
        )


def install_peers(folder: Path) -> list[str]:
    """Make the peers' environment on first use; which of them can be imported."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet"]
        constraints = str(HERE.parent / "constraints.txt")
        subprocess.run([*pip, "--constraint", constraints, "torch", "numpy"], check=True)
        for peer in PEERS:  # without their own dependencies, which pin other versions of torch
            subprocess.run([*pip, "--no-deps", peer], check=False, stderr=subprocess.DEVNULL)
    there = []
    for peer in PEERS:
        found = subprocess.run([str(python), "-c", f"import {peer}"], capture_output=True)
        print(f"{peer}: {'installed' if found.returncode == 0 else 'does not install here'}")
        if found.returncode == 0:
            there.append(peer)
    return there


def make(name: str, size: int) -> MetaLearner:
    return make_learner(name, image_size=size, ways=5, generator=0)


def write_work(a: Arguments, name: str, folder: Path) -> None:
    """The weights and the images that every contender reads."""
    learner = make(name, a.size)
    geometry = TaskGeometry(5, a.shots, a.queries)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (a.tasks, geometry.images_a_task, 3, a.size, a.size), np.uint8)
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
