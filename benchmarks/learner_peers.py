"""The steps that `benchmarks/learners.py` compares with, written without metadrift.

One process a contender: `python learner_peers.py WORK CONTENDER FOLDER` reads the weights and the
images from FOLDER/work.npz, answers each line on its input with the milliseconds of one step and
the loss, and at the end of its input prints its peak memory in megabytes.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = Callable[[], Tensor | dict[str, float]]


class Net(nn.Module):
    """The same blocks and head, as everybody writes them."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        super().__init__()
        blocks = sum(name.endswith("conv.weight") for name in state)
        layers: list[nn.Module] = []
        for b in range(blocks):
            kernel = state[f"backbone.blocks.{b}.conv.weight"]
            conv = nn.Conv2d(kernel.shape[1], kernel.shape[0], 3, padding=1, bias=False)
            norm = nn.BatchNorm2d(kernel.shape[0], track_running_stats=False)
            conv.weight.data = kernel
            layers += [conv, norm, nn.ReLU(), nn.MaxPool2d(2)]
        self.backbone = nn.Sequential(*layers, nn.Flatten())
        if "head.weight" in state:
            self.head = nn.Linear(*reversed(state["head.weight"].shape))
            self.head.weight.data, self.head.bias.data = state["head.weight"], state["head.bias"]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


class Work:
    """T tasks, the weights, and how the inner loop goes."""

    def __init__(self, folder: Path) -> None:
        data = np.load(folder / "work.npz", allow_pickle=False)
        self.images = torch.from_numpy(data["images"])
        self.ways, self.shots, self.queries = (int(n) for n in data["geometry"])
        self.inner_steps, self.inner_lr = int(data["inner_steps"]), float(data["inner_lr"])
        names = [n for n in data.files if n.startswith(("backbone.", "head.", "log_"))]
        self.state = {name: torch.from_numpy(data[name]) for name in names}
        self.net = Net(self.state)

    def tasks(self) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """(support, labels, query, labels) of each task, as floats."""
        n = self.ways * self.shots
        y = torch.arange(self.ways)
        ys, yq = y.repeat_interleave(self.shots), y.repeat_interleave(self.queries)
        pixels = self.images.float() / 127.5 - 1
        return [(x[:n], ys, x[n:], yq) for x in pixels]


IN_BF16, LIMIT = " in bf16", "bf16 convolutions"
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # support, labels, query, labels
Library = Callable[[Work, nn.Module], Loss]


def protonet_loop(work: Work) -> Step:
    def loss(support: Tensor, _: Tensor, query: Tensor, yq: Tensor) -> Tensor:
        z = work.net.backbone(torch.cat([support, query]))
        prototypes = z[: len(support)].reshape(work.ways, work.shots, -1).mean(1)
        return F.cross_entropy(-torch.cdist(z[len(support) :], prototypes).square(), yq)

    return over_tasks(work, loss)


def ridge_loop(work: Work) -> Step:
    """Ridge regression in its dual form, task by task."""
    strength, scale = (nn.Parameter(work.state[f"log_{n}"]) for n in ("strength", "scale"))
    work.net.strength, work.net.scale = strength, scale

    def loss(support: Tensor, ys: Tensor, query: Tensor, yq: Tensor) -> Tensor:
        z = work.net.backbone(torch.cat([support, query]))
        x, xq = z[: len(support)], z[len(support) :]
        targets = 2.0 * F.one_hot(ys, work.ways).float() - 1.0
        system = x @ x.T + strength.exp() * torch.eye(len(x))
        weights = x.T @ torch.linalg.solve(system, targets)
        return F.cross_entropy(scale.exp() * (xq @ weights), yq)

    return over_tasks(work, loss)


def anil(work: Work, library: Library) -> Step:
    """Features once a task, then the head adapts."""
    test = library(work, work.net.head)

    def loss(support: Tensor, ys: Tensor, query: Tensor, yq: Tensor) -> Tensor:
        z = work.net.backbone(torch.cat([support, query]))
        return test(z[: len(support)], ys, z[len(support) :], yq)

    return over_tasks(work, loss)


def maml(work: Work, library: Library) -> Step:
    return over_tasks(work, library(work, work.net))


def over_tasks(work: Work, loss_of: Loss) -> Step:
    """A step that goes through the tasks one after the other."""

    def step() -> Tensor:
        work.net.zero_grad()
        total = torch.zeros(())
        for task in work.tasks():
            loss = loss_of(*task) / len(work.images)
            loss.backward()
            total += loss.detach()
        return total

    return step


def higher(work: Work, module: nn.Module) -> Loss:
    import higher as library

    optimiser = torch.optim.SGD(module.parameters(), lr=work.inner_lr)

    def adapt_and_test(xs: Tensor, ys: Tensor, xq: Tensor, yq: Tensor) -> Tensor:
        with library.innerloop_ctx(module, optimiser, copy_initial_weights=False) as (copy, inner):
            for _ in range(work.inner_steps):
                inner.step(F.cross_entropy(copy(xs), ys))
            return F.cross_entropy(copy(xq), yq)

    return adapt_and_test


def torchopt(work: Work, module: nn.Module) -> Loss:
    import torchopt as library

    inner = library.MetaSGD(module, lr=work.inner_lr)

    def adapt_and_test(xs: Tensor, ys: Tensor, xq: Tensor, yq: Tensor) -> Tensor:
        weights = library.extract_state_dict(module, by="reference")
        rest = library.extract_state_dict(inner, by="reference")
        for _ in range(work.inner_steps):
            inner.step(F.cross_entropy(module(xs), ys))
        loss = F.cross_entropy(module(xq), yq)
        library.recover_state_dict(module, weights)
        library.recover_state_dict(inner, rest)
        return loss

    return adapt_and_test


def bare_convolutions(work: Work, dtype: torch.dtype = torch.float32) -> Step:
    """Each convolution of the model forward and backward once, on inputs of its size, no more."""
    size = work.images.shape[-1]
    rows = work.images.shape[0] * work.images.shape[1]
    generator = torch.Generator().manual_seed(0)
    layers = []
    for b, name in enumerate(n for n in work.state if n.endswith("conv.weight")):
        kernel = work.state[name].to(dtype).requires_grad_()
        shape = (rows, kernel.shape[1], size, size)
        x = torch.randn(shape, generator=generator)
        upstream = torch.randn((rows, len(kernel), size, size), generator=generator)
        x, upstream = (t.to(dtype, memory_format=torch.channels_last) for t in (x, upstream))
        layers.append((x.requires_grad_(b > 0), kernel, upstream))  # images need no gradient
        size //= 2

    def step() -> Tensor:
        for x, kernel, upstream in layers:
            x.grad = kernel.grad = None
            F.conv2d(x, kernel, padding=1).backward(upstream)
        return torch.tensor(float("nan"))

    return step


CONTENDERS: dict[tuple[str, str], Callable[[Work], Step]] = {
    ("protonet", "loop"): protonet_loop,
    ("protonet", "convolutions"): bare_convolutions,
    ("protonet", LIMIT): lambda work: bare_convolutions(work, torch.bfloat16),
    ("anil", "higher"): lambda work: anil(work, higher),
    ("anil", "convolutions"): bare_convolutions,
    ("maml", "higher"): lambda work: maml(work, higher),
    ("anil", "torchopt"): lambda work: anil(work, torchopt),
    ("maml", "torchopt"): lambda work: maml(work, torchopt),
    ("ridge", "loop"): ridge_loop,
    ("ridge", "convolutions"): bare_convolutions,
}


def serve(step: Step) -> None:
    """Answer every line on the input with one timed step; at its end, with the peak memory."""
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        said = step()
        ms = 1000 * (time.perf_counter() - begin)
        # A step that times itself says its own milliseconds, and whatever else there is.
        more = said if isinstance(said, dict) else {"loss": said.item()}
        print(json.dumps({"ms": ms} | more), flush=True)
    print(json.dumps({"peak_mb": peak_mb()}), flush=True)


def peak_mb() -> float:
    """The most memory this process had; getrusage would count that of its parent at the start."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def prepare(threads: int) -> None:
    """One number of threads, and glibc told to keep freed memory, for every contender alike."""
    torch.set_num_threads(threads)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-4, 0), libc.mallopt(-1, 2**31 - 1)  # M_MMAP_MAX, M_TRIM_THRESHOLD


def in_bf16(step: Step) -> Step:
    """The same step inside torch's own mixed precision, for which nothing else has to change."""

    def mixed() -> Tensor | dict[str, float]:
        with torch.autocast("cpu", torch.bfloat16):
            return step()

    return mixed


if __name__ == "__main__":
    prepare(int(sys.argv[4]))
    work, contender = sys.argv[1], sys.argv[2]
    made = CONTENDERS[work, contender.removesuffix(IN_BF16)](Work(Path(sys.argv[3])))
    serve(in_bf16(made) if contender.endswith(IN_BF16) else made)
