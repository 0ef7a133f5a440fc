"""Recombined replay: new tasks from the classes of stored tasks of one latent domain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.errors import UsageError
from metadrift.memory import Memory
from metadrift.replay.base import Replay
from metadrift.tasks import TaskBatch


def recombined(
    memory: Memory,
    replay: Replay,
    rng: np.random.Generator,
    pool: int = 8,
    guard: float | None = 0.5,
) -> Replay:
    """The replayed batch with its tasks put together anew from up to `pool` batches of its
    cluster. Slot and weight stay."""
    members = memory.slots_of(int(memory.label[replay.slot]))
    others = [slot for slot in members if slot != replay.slot]
    if len(others) >= pool:
        others = [others[i] for i in rng.choice(len(others), pool - 1, replace=False)]
    tasks = memory.buffer.get([replay.slot, *others])
    new = recombine(tasks, len(replay.tasks), rng, guard)
    return replace(replay, tasks=new, as_stored=False)


def recombine(
    tasks: TaskBatch,
    n: int,
    rng: np.random.Generator,
    guard: float | None = 0.5,
    features: Tensor | None = None,
) -> TaskBatch:
    """n new tasks from the classes of M stored ones, guarded against a class meeting itself.

    Nobody knows the classes' names, and one class may sit in several stored tasks. But classes of
    one stored task are surely different, so their distances show how near different classes come:
    two classes of different tasks may meet only if they are farther apart than a part `guard` of
    those known pairs. A new task that cannot be completed is a stored one instead.

    Parameters
    ----------
    tasks
        M tasks of one latent domain.
    guard
        0 lets all meet that are at least as far apart as the nearest known pair; 1 nearly none.
        None lets any two classes meet.
    features
        float [M, ways, D], one vector a class. Without them, the mean image of the class at 7 x 7
        pixels.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> rng = np.random.default_rng(0)
    >>> images = torch.from_numpy(rng.integers(256, size=(6, 20, 1, 28, 28), dtype=np.uint8))
    >>> new = recombine(TaskBatch(images, TaskGeometry(5, 1, 3)), 2, rng)
    >>> tuple(new.images.shape)
    (2, 20, 1, 28, 28)
    """
    if guard is not None and not 0 <= guard <= 1:
        raise UsageError(f"the guard of recombination lies in 0..1, not {guard}")
    classes = _by_class(tasks)
    M, W = classes.shape[:2]
    if features is None:
        small = F.adaptive_avg_pool2d(classes.flatten(0, 2).float(), 7)
        features = small.reshape(M, W, tasks.geometry.images_per_class, -1).mean(2)
    may_meet = _may_meet(features, guard)
    chosen = np.stack([_choose_classes(may_meet, M, W, rng) for _ in range(n)])
    new = classes.flatten(0, 1)[torch.from_numpy(chosen).to(classes.device)]  # [n, W, S+Q, ...]
    support = new[:, :, : tasks.geometry.shots].flatten(1, 2)
    query = new[:, :, tasks.geometry.shots :].flatten(1, 2)
    return TaskBatch(torch.cat([support, query], 1), tasks.geometry)


def _by_class(tasks: TaskBatch) -> Tensor:
    """uint8 [T, ways, shots+queries, C, H, W]."""
    g, image = tasks.geometry, tasks.images.shape[2:]
    support = tasks.support.reshape(len(tasks), g.ways, g.shots, *image)
    query = tasks.query.reshape(len(tasks), g.ways, g.queries, *image)
    return torch.cat([support, query], 2)


def _may_meet(features: Tensor, guard: float | None) -> np.ndarray:
    """bool [M*W, M*W]: which classes may stand in one task."""
    M, W = features.shape[:2]
    others: np.ndarray = ~np.eye(M * W, dtype=np.bool_)
    if guard is None:
        return others
    flat = features.detach().double().cpu().reshape(M * W, -1)
    distance = torch.cdist(flat, flat).numpy()
    task = np.repeat(np.arange(M), W)
    known = (task[:, None] == task) & others
    far = distance >= np.quantile(distance[known], guard)
    allowed: np.ndarray = known | (far & others)
    return allowed


def _choose_classes(may_meet: np.ndarray, M: int, W: int, rng: np.random.Generator) -> np.ndarray:
    """int64 [W]: one class after the other, each allowed beside all before it."""
    chosen: list[int] = []
    left = np.ones(M * W, np.bool_)
    while len(chosen) < W:
        options = np.flatnonzero(left)
        if len(options) == 0:
            return int(rng.integers(M)) * W + np.arange(W)
        chosen.append(int(rng.choice(options)))
        left &= may_meet[chosen[-1]]
    return np.array(chosen)
