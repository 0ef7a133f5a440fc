"""Part `step` of `make bench`: the whole training step of m2d3-pets, and what changes its time.

ProtoNet, 5-way 5-shot 10 queries, two arriving and two replayed tasks; memory full of six latent
domains, detector past its burn-in, tasks drawn from a pack. Each contender is a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from bench_table import Row
from learner_peers import Net, Step, prepare, serve
from metadrift.methods.base import StepOutcome
from metadrift.methods.config import MemoryConfig, ReplayConfig
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.replay import Replay
from metadrift.runs.build import Parts
from metadrift.streams.prefetch import Prefetch
from metadrift.tasks import TaskBatch
from plain_step import EVERY, PlainStep
from turns import bf16_ratio, processes_in_turns, ratio
from workload import fill, noise_run

CAPACITY, CLUSTERS = 60, 6
VARIANTS = {  # contender: what it does otherwise than ours
    "channels outermost": "images laid out [N, C, H, W] in memory",
    "two forwards": "arriving and replayed tasks in a forward pass each",
    "compiled": "the backbone under torch.compile",
    "fused Adam": "Adam(fused=True)",
    "no prefetch": "the next tasks drawn by the training thread",
    "two threads": "two torch threads in place of one",
}


def rows(quick: bool) -> list[Row]:
    layers = "bare, torch's layers"
    found = _at(28, 8 if quick else 20)
    if quick:
        return found + _at(84, 2)
    found += _otherwise(28, 20, [layers, *VARIANTS])
    found += _at(84, 7)
    # A step takes nine times as long here, so only what may depend on the size; and so much memory
    # that not all contenders can be there at once.
    for names in ([layers, "two threads"], ["channels outermost", "two forwards"]):
        found += _otherwise(84, 7, names)
    return [*found, *_blocks(28, 12, beside=True), *_blocks(84, 2)]


def _at(size: int, rounds: int) -> list[Row]:
    """Ours against the plain step and against its own network."""
    commands = {name: _command(name, size) for name in ("ours", "bf16", "plain", "bare")}
    told = processes_in_turns(commands, rounds, warm=1)
    ours = told["ours"].all()
    px = f"{size} px"
    plain, refresh = told["plain"].all(), told["plain"].all("refresh_ms")
    whole = [a + CLUSTERS * b / EVERY for a, b in zip(plain, refresh, strict=True)]
    note = f"ours {sorted(ours)[len(ours) // 2]:.0f} ms a step"
    quick, why = bf16_ratio(ours, told["bf16"].all())
    without = "plain step without cluster norms / ours"
    return [
        Row(f"{px}: bf16", "ours in float32 / in bf16", quick, why),
        Row(f"{px}: plain", "plain step / ours", ratio(whole, ours), note),
        Row(f"{px}: plain, no norms", without, ratio(plain, ours)),
        Row(f"{px}: bare", "ours / its network alone", ratio(ours, told["bare"].all())),
    ]


def _otherwise(size: int, rounds: int, names: list[str]) -> list[Row]:
    """The same step done otherwise, against ours."""
    commands = {name: _command(name, size) for name in ("ours", *names)}
    told = processes_in_turns(commands, rounds, warm=1)
    found = []
    for name in names:
        what = VARIANTS.get(name, "the network alone, of torch's layers")
        value = None if told[name].failed else ratio(told[name].all(), told["ours"].all())
        found.append(Row(f"{size} px: {name}", f"{what} / ours", value, told[name].failed))
    return found


def _blocks(size: int, rounds: int, beside: bool = False) -> list[Row]:
    """In blocks of 25 steps, so that the refreshing of gradient norms is in every block."""
    names = ["ours", *(["uniform"] if beside else [])]
    told = processes_in_turns({n: _command(n, size, 25) for n in names}, rounds, warm=0)
    ours, spent = told["ours"].all(), told["ours"].all("bookkeeping_ms")
    what, note = "detection, memory and replay / the whole step", f"of {25 * rounds} steps"
    found = [Row(f"{size} px: bookkeeping", what, sum(spent) / sum(ours), note)]
    if beside:
        found.append(Row("PETS", "replay by PETS / uniform", ratio(ours, told["uniform"].all())))
    return found


def _command(name: str, size: int, steps: int = 1) -> list[str]:
    return [sys.executable, __file__, name, str(size), str(steps)]


def contender(name: str, size: int, folder: Path) -> Step:
    """One step of it, ready to be timed."""
    if name.startswith("bare"):
        return _bare(size, folder, torch_layers=name != "bare")
    replay = ReplayConfig(sampler="uniform" if name == "uniform" else "pets")
    # Smaller than the paper's 300, which would only take longer to fill: see part growth.
    memory = MemoryConfig(capacity=CAPACITY)
    precision = "bf16" if name == "bf16" else "float32"
    settings = {"memory": memory, "replay": replay, "precision": precision}
    parts = noise_run(folder, size=size, shots=5, **settings)
    fill(parts, CLUSTERS)
    method = parts.method
    assert isinstance(method, M2D3PETS)
    if name == "plain":
        return _plain(parts, method)
    if name == "channels outermost":
        inputs = method.learner.inputs
        method.learner.inputs = lambda *images: inputs(*images).contiguous()
    elif name == "two forwards":
        method.forward = lambda tasks, replays=(): _two_forwards(method, tasks, list(replays))
    elif name == "compiled":
        method.learner.backbone = torch.compile(method.learner.backbone, dynamic=False)
    elif name == "fused Adam":
        method.optimizer = torch.optim.Adam(method.parameters(), lr=0.001, fused=True)
    stream = parts.stream if name == "no prefetch" else Prefetch(parts.stream)

    def step() -> dict[str, float]:
        before = sum(method.clock.seconds.values())
        loss = method.step(next(stream)).loss
        spent = sum(method.clock.seconds.values()) - before
        return {"loss": loss, "bookkeeping_ms": 1000 * spent}

    return step


def _two_forwards(method: M2D3PETS, tasks: TaskBatch, replays: list[Replay]) -> StepOutcome:
    arriving = method.learner(tasks)
    replayed = method.learner(TaskBatch.concatenate([r.tasks for r in replays]))
    objective = arriving.loss.mean() + method.replay_term(replayed, replays)
    return StepOutcome(arriving, objective, replayed, len(replays))


def _plain(parts: Parts, method: M2D3PETS) -> Step:
    memory, g = method.memory, parts.stream.geometry
    clusters = [
        [memory.buffer.get([slot]).images for slot in memory.slots_of(label)]
        for label in memory.counts()
    ]
    state = {k: v.detach().clone() for k, v in method.learner.named_parameters()}
    plain = PlainStep(state, g.ways, g.shots, 50, clusters)
    turn = 0

    def step() -> dict[str, float]:
        nonlocal turn
        tasks = next(parts.stream).images
        begin = time.perf_counter()
        loss = plain.step(tasks)
        ms = 1000 * (time.perf_counter() - begin)
        turn += 1
        return {"ms": ms, "loss": loss.item(), "refresh_ms": 1000 * plain.refresh(turn % CLUSTERS)}

    return step


def _bare(size: int, folder: Path, torch_layers: bool) -> Step:
    """Forward, backward and optimiser on four tasks whose images are floats already."""
    parts = noise_run(folder, size=size, shots=5, method="sequential")
    learner = parts.learner
    tasks = TaskBatch.concatenate([next(parts.stream), next(parts.stream)])
    pixels = learner.inputs(tasks.images)
    learner.inputs = lambda *images: pixels
    net = Net(dict(learner.named_parameters())).backbone if torch_layers else learner
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = net(pixels).square().mean() if torch_layers else learner(tasks).loss.mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def main(name: str, size: int, steps: int) -> None:
    prepare(2 if name == "two threads" else 1)
    with tempfile.TemporaryDirectory() as folder:
        one = contender(name, size, Path(folder))

        def block() -> Tensor | dict[str, float]:
            said = [one() for _ in range(steps)]
            last = said[-1]
            if isinstance(last, dict) and "bookkeeping_ms" in last:
                last["bookkeeping_ms"] = sum(each["bookkeeping_ms"] for each in said)
            return last

        block()  # what fails, fails before the turns
        serve(block)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
