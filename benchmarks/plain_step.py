"""A whole training step in the style of the method's released code, for comparison.

Every task goes through the network alone, memory holds float32 tensors, the statistic is computed
anew from both windows at every step, and the gradient norm of a cluster is taken on a deep copy of
the model. It does the same number of tasks, the same loss and the same statistic as metadrift.
"""

from __future__ import annotations

import copy
import time
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from learner_peers import Net

EVERY, BATCHES = 25, 2  # s and R: gradient norms every s steps, on R batches of each cluster


class PlainStep:
    """ProtoNet with change detection, memory and replay by gradient norm.

    Parameters
    ----------
    state
        Weights by name, as a metadrift learner has them.
    ways, shots
        Of the tasks: images [ways*(shots+queries), 3, H, W] each, support images first.
    window
        B.
    clusters
        Stored batches by cluster: uint8 [T, n, 3, H, W] each.
    """

    def __init__(
        self,
        state: dict[str, Tensor],
        ways: int,
        shots: int,
        window: int,
        clusters: list[list[Tensor]],
    ) -> None:
        self.net = Net(state)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.001)
        self.ways, self.shots, self.window = ways, shots, window
        self.memory = [[_floats(batch) for batch in cluster] for cluster in clusters]
        self.norms = [1.0] * len(clusters)
        self.vectors: deque[Tensor] = deque(maxlen=2 * window)
        self.rng = np.random.default_rng(0)
        self.statistic = float("nan")

    def step(self, images: Tensor) -> Tensor:
        """Train on the arriving tasks uint8 [T, n, 3, H, W] and on a stored batch."""
        arriving = _floats(images)
        replayed, cluster, weight = self.draw()
        losses, supports = zip(*(self.task(self.net, task) for task in arriving), strict=True)
        again = [self.task(self.net, task)[0] for task in replayed]
        objective = torch.stack(losses).mean() + weight * torch.stack(again).mean()
        self.optimizer.zero_grad()
        objective.backward()
        self.optimizer.step()
        self.vectors.append(torch.stack(supports).mean(0).detach())
        if len(self.vectors) == 2 * self.window:
            stacked = torch.stack(list(self.vectors)).double()
            self.statistic = plain_mmd(stacked[: self.window], stacked[self.window :])
        place = self.rng.integers(len(self.memory[cluster]))
        self.memory[cluster][place] = arriving
        return objective

    def draw(self) -> tuple[Tensor, int, float]:
        """A stored batch by size and gradient norm of its cluster, and its weight."""
        sizes = np.array([len(cluster) for cluster in self.memory])
        q = sizes * np.array(self.norms)
        q = 0.9 * q / q.sum() + 0.1 * sizes / sizes.sum()
        cluster = int(self.rng.choice(len(q), p=q))
        batch = self.memory[cluster][self.rng.integers(len(self.memory[cluster]))]
        return batch, cluster, float(sizes[cluster] / sizes.sum() / q[cluster])

    def refresh(self, cluster: int, batches: int = BATCHES) -> float:
        """Measure the gradient norm of one cluster; the seconds it took."""
        begin = time.perf_counter()
        model = copy.deepcopy(self.net)
        for _ in range(batches):
            batch = self.memory[cluster][self.rng.integers(len(self.memory[cluster]))]
            torch.stack([self.task(model, task)[0] for task in batch]).mean().backward()
        squares = [p.grad.square().sum() for p in model.parameters() if p.grad is not None]
        self.norms[cluster] = float(torch.stack(squares).sum().sqrt()) / batches
        return time.perf_counter() - begin

    def task(self, net: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and mean support embedding of one task, floats [n, 3, H, W]."""
        z = net.backbone(images)
        n = self.ways * self.shots
        prototypes = z[:n].reshape(self.ways, self.shots, -1).mean(1)
        labels = torch.arange(self.ways).repeat_interleave((len(images) - n) // self.ways)
        return F.cross_entropy(-torch.cdist(z[n:], prototypes).square(), labels), z[:n].mean(0)


def plain_mmd(u: Tensor, v: Tensor, bandwidth: float | None = None) -> float:
    """The U-statistic of MMD^2 between [B, D] and [B, D], pairs of the same place left out."""
    if bandwidth is None:
        bandwidth = float(torch.pdist(torch.cat([u, v])).median()) or 1.0

    def pairs(a: Tensor, b: Tensor) -> Tensor:
        kernel = torch.exp(-torch.cdist(a, b).square() / (2 * bandwidth**2))
        return kernel.sum() - kernel.diagonal().sum()

    B = len(u)
    return float((pairs(u, u) + pairs(v, v) - 2 * pairs(u, v)) / (B * (B - 1)))


def _floats(images: Tensor) -> Tensor:
    # Channels outermost, as data loaders hand images over; packs have them innermost.
    return images.float().contiguous() / 127.5 - 1
