"""Part `evaluation` of `make bench`: many tasks in a forward pass against a loop over tasks.

All score the same tasks of the same packs, whose images are read from the memory map each time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from bench_table import Row
from learner_peers import Net, prepare
from metadrift.data.sampler import TaskSampler
from metadrift.evaluation.protocol import evaluate, evaluation_tasks
from metadrift.learners import MetaLearner, make_learner
from metadrift.tasks import TaskGeometry
from turns import bf16_ratio, in_turns, ratio
from workload import noise_pack

DOMAINS = 6


def rows(quick: bool) -> list[Row]:
    prepare(1)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for size, shots in ((28, 1), (84, 5)):
            if not (quick and size == 84):
                home = Path(folder, str(size))
                found += _at(home, size, shots, tasks=2 if quick or size == 84 else 20)
    return found


def _at(folder: Path, size: int, shots: int, tasks: int, rounds: int = 5) -> list[Row]:
    folder.mkdir()
    geometry = TaskGeometry(5, shots, 10)
    samplers = {}
    for d in range(DOMAINS):
        pack = noise_pack(folder / f"domain{d}", size, 20, geometry.images_per_class, seed=d)
        samplers[pack.name] = TaskSampler(pack, "test", geometry)
    learner = make_learner("protonet", image_size=size, ways=5, generator=0)
    mixed = make_learner("protonet", image_size=size, ways=5, generator=0, precision="bf16")

    def ours(learner: MetaLearner = learner) -> dict[str, float]:
        return {k: v.mean for k, v in evaluate(learner, samplers, tasks=tasks).items()}

    def inference_mode() -> None:
        with torch.inference_mode():
            ours()

    works: dict[str, Callable[[], object]] = {
        "ours": ours,
        "bf16": lambda: ours(mixed),
        "loop": lambda: _loop(learner, samplers, tasks),
        "plain": lambda: _plain(learner, samplers, tasks),
        "plain, our layout": lambda: _plain(learner, samplers, tasks, our_layout=True),
        "inference mode": inference_mode,
    }
    assert _close(ours(), _loop(learner, samplers, tasks))
    assert _close(ours(), _plain(learner, samplers, tasks))
    seconds = in_turns(works, rounds)
    each = {name: ratio(values, seconds["ours"]) for name, values in seconds.items()}
    fast = DOMAINS * tasks / sorted(seconds["ours"])[rounds // 2]
    px = f"{size} px"
    quick, why = bf16_ratio(seconds["ours"], seconds["bf16"])
    return [
        Row(f"{px}: bf16", "ours in float32 / in bf16", quick, why),
        Row(
            f"{px}: plain loop",
            "a loop with torch's layers / ours",
            each["plain"],
            f"{fast:.0f} tasks a second",
        ),
        Row(
            f"{px}: plain loop, our layout",
            "the same, given the channels innermost / ours",
            each["plain, our layout"],
        ),
        Row(f"{px}: loop", "our learner one task at a time / ours", each["loop"]),
        Row(f"{px}: inference mode", "inference mode / no_grad", each["inference mode"]),
    ]


def _loop(learner: MetaLearner, samplers: dict[str, TaskSampler], tasks: int) -> dict[str, float]:
    found = {}
    with torch.no_grad():
        for name, sampler in samplers.items():
            rows = evaluation_tasks(sampler, name, tasks=tasks)
            each = [learner(sampler.gather(row[None])).accuracy().item() for row in rows]
            found[name] = sum(each) / tasks
    return found


def _plain(
    learner: MetaLearner, samplers: dict[str, TaskSampler], tasks: int, our_layout: bool = False
) -> dict[str, float]:
    net, found = Net(dict(learner.named_parameters())).backbone, {}
    with torch.no_grad():
        for name, sampler in samplers.items():
            g, right = sampler.geometry, 0.0
            labels = torch.arange(g.ways).repeat_interleave(g.queries)
            for row in evaluation_tasks(sampler, name, tasks=tasks):
                images = sampler.gather(row[None]).images[0].float()
                z = net((images if our_layout else images.contiguous()) / 127.5 - 1)
                n = g.ways * g.shots
                prototypes = z[:n].reshape(g.ways, g.shots, -1).mean(1)
                nearest = torch.cdist(z[n:], prototypes).argmin(1)
                right += (nearest == labels).float().mean().item()
            found[name] = right / tasks
    return found


def _close(one: dict[str, float], other: dict[str, float]) -> bool:
    """The same accuracies, but for ties that rounding decides."""
    return all(abs(one[name] - other[name]) < 0.02 for name in one)
