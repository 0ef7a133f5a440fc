"""Train one learner on one domain and say what it reaches on unseen classes.

    python benchmarks/train_single_domain.py PACK --learner protonet --shots 1 --steps 4000

Prints the accuracy on 750 tasks of the test classes with its 95 % interval, and the minutes.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
import tyro

from metadrift.data.pack import Pack, open_pack
from metadrift.data.sampler import TaskSampler
from metadrift.evaluation.protocol import evaluate
from metadrift.learners import MetaLearner, make_learner
from metadrift.learners.allocator import keep_freed_memory
from metadrift.replay import Shift, Turn
from metadrift.tasks import TaskBatch, TaskGeometry

SHIFT, SCALE, ROTATION = 0.08, 0.1, 10  # share of the side, share of the size, degrees


@dataclass(frozen=True)
class Arguments:
    pack: Annotated[Path, tyro.conf.Positional]  # the domain
    learner: str = "protonet"  # protonet, anil, maml or ridge
    options: dict[str, float] = field(default_factory=dict)  # of the learner: inner_steps 3 ...
    normalisation: str = "batch"  # batch or running
    filters: int | None = None  # width of the backbone; the learner's own if left out
    ways: int = 5  # classes of a test task
    train_ways: int | None = None  # classes of a training task; as in testing if left out
    shots: int = 1  # support images a class
    test_shots: tuple[int, ...] = ()  # support images a class in testing; as in training if none
    rotate: bool = False  # turn each class of a training task by a random quarter turn
    augment: bool = False  # shift, turn and scale each training image a little, on its own
    queries: int = 10  # query images a class in training; 15 in testing
    tasks: int = 4  # tasks a step
    steps: int = 4000  # training steps
    rate: float = 1e-3  # learning rate of Adam
    halve_every: int = 1000  # steps after which the rate is halved
    seed: int = 0  # of weights and training tasks; the test tasks are always the same
    threads: int = 1  # of torch
    report_every: int = 500  # steps between progress lines
    out: Path | None = None  # a file to append the result to, a JSON line a run


def main(arguments: Arguments) -> None:
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    pack = open_pack(arguments.pack)
    result = train(arguments, pack)
    print(json.dumps(result))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        with open(arguments.out, "a") as file:
            file.write(json.dumps(result) + "\n")


def train(a: Arguments, pack: Pack) -> dict[str, Any]:
    learner = make_learner(
        a.learner,
        image_size=pack.image_size,
        ways=a.ways,
        generator=a.seed,
        normalisation=a.normalisation,
        filters=a.filters,
        **{k: int(v) if v.is_integer() else v for k, v in a.options.items()},
    )
    optimiser = torch.optim.Adam(learner.parameters(), lr=a.rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, a.halve_every, 0.5)
    geometry = TaskGeometry(a.train_ways or a.ways, a.shots, a.queries)
    sampler = TaskSampler(pack, "train", geometry)
    rng = np.random.default_rng([a.seed, 1])
    begin = time.perf_counter()
    for step in range(1, a.steps + 1):
        tasks = sampler.draw(a.tasks, rng)
        rngs = [rng] * len(tasks)
        # A turned character is a character of its own in this field's Omniglot protocol.
        tasks = Turn(0.75)(tasks, rngs) if a.rotate else tasks
        tasks = Shift(SHIFT)(warped(tasks, rng), rngs) if a.augment else tasks
        outcome = learner(tasks)
        if not outcome.loss.isfinite().all():
            raise SystemExit(f"the loss is not finite at step {step}, learning rate {a.rate}")
        optimiser.zero_grad()
        outcome.loss.mean().backward()
        optimiser.step()
        schedule.step()
        if step % a.report_every == 0:
            minutes = (time.perf_counter() - begin) / 60
            seen = outcome.accuracy().mean().item()
            line = f"step {step}: loss {outcome.loss.mean().item():.3f}, training {seen:.3f}"
            print(f"{line}{_validation(a, learner, pack)}, {minutes:.1f} min", flush=True)
    minutes = (time.perf_counter() - begin) / 60
    reached = {}
    for shots in a.test_shots or (a.shots,):
        test = TaskSampler(pack, "test", TaskGeometry(a.ways, shots, 15))
        found = evaluate(learner, {pack.name: test})[pack.name]
        print(f"{shots}-shot test {100 * found.mean:.2f} +- {100 * found.ci95:.2f} %", flush=True)
        reached[f"{shots}-shot"] = {"mean": found.mean, "ci95": found.ci95, "tasks": found.tasks}
    print(f"{minutes:.1f} minutes")
    settings = asdict(a) | {"pack": pack.name, "out": None, "image_size": pack.image_size}
    return settings | {"accuracy": reached, "minutes": round(minutes, 1)}


def warped(tasks: TaskBatch, rng: np.random.Generator) -> TaskBatch:
    """Every image turned by a small angle and made a little larger or smaller, on its own."""
    images = tasks.images.flatten(0, 1)
    N = len(images)
    factor = 1 + rng.uniform(-SCALE, SCALE, N)
    angle = np.deg2rad(rng.uniform(-ROTATION, ROTATION, N))
    cos, sin, zero = np.cos(angle) / factor, np.sin(angle) / factor, np.zeros(N)
    affine = np.stack([cos, -sin, zero, sin, cos, zero], axis=1).reshape(N, 2, 3)
    grid = F.affine_grid(torch.from_numpy(affine).float(), list(images.shape), align_corners=False)
    moved = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    moved = moved.round_().clamp_(0, 255).to(torch.uint8)
    return TaskBatch(moved.reshape(tasks.images.shape), tasks.geometry)


def _validation(a: Arguments, learner: MetaLearner, pack: Pack) -> str:
    if not pack.classes("val"):
        return ""
    sampler = TaskSampler(pack, "val", TaskGeometry(a.ways, a.shots, 15))
    found = evaluate(learner, {"val": sampler}, tasks=200)["val"]
    return f", validation {found.mean:.3f}"


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
