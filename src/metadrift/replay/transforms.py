"""Fresh tasks: pictures are transformed a little each time they are trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch

from metadrift.randomness import Purpose, generator
from metadrift.tasks import TaskBatch

Generators = Sequence[np.random.Generator]


class Transform(Protocol):
    """Changes tasks without changing their answers. The given tasks are not modified."""

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        """The transformed tasks; each task has its own generator."""


class FreshTasks:
    """Which tasks are transformed before training, and how.

    Every task of every use has its own generator. It depends on the seed, the number of uses so far
    and the task's place in the step. So a resumed run continues with the same transforms, and
    several processes transform their shares of a step as one process transforms the whole.

    Parameters
    ----------
    fresh
        `all` transforms arriving and replayed tasks, `replay` only replayed ones, `off` none.
    transforms
        Applied one after the other.
    seed
        The seed of the transforms.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> images = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 1, 2, 2).expand(1, 4, 1, 2, 2)
    >>> tasks = TaskBatch(images, TaskGeometry(ways=2, shots=1, queries=1))
    >>> fresh = FreshTasks("replay", [Turn(1.0)])
    >>> fresh.arriving(tasks) is tasks
    True
    >>> [fresh.replayed(tasks).images[0, 0, 0].flatten().tolist() for _ in range(3)]
    [[2, 0, 3, 1], [1, 3, 0, 2], [2, 0, 3, 1]]
    """

    def __init__(
        self,
        fresh: Literal["all", "replay", "off"] = "off",
        transforms: Sequence[Transform] = (),
        seed: int = 0,
    ) -> None:
        self.fresh = fresh
        self.transforms = transforms
        self.seed = seed
        self._uses = 0

    def arriving(self, tasks: TaskBatch, rank: int = 0) -> TaskBatch:
        """Arriving tasks as they are trained on; `rank` is the process that has them."""
        return self._next_form(tasks, rank) if self.fresh == "all" else tasks

    def replayed(self, tasks: TaskBatch, rank: int = 0) -> TaskBatch:
        """Stored tasks as they are trained on."""
        return tasks if self.fresh == "off" else self._next_form(tasks, rank)

    def replayed_by(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        """The same with the caller's generators, one per task, without a change of the state."""
        return tasks if self.fresh == "off" else self._form(tasks, rngs)

    def _next_form(self, tasks: TaskBatch, rank: int) -> TaskBatch:
        self._uses += 1
        places = range(rank * len(tasks), (rank + 1) * len(tasks))
        keys = ((Purpose.TRANSFORM, self._uses, place) for place in places)
        return self._form(tasks, [generator(self.seed, *key) for key in keys])

    def _form(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        for transform in self.transforms:
            tasks = transform(tasks, rngs)
        return tasks

    def state_dict(self) -> dict[str, Any]:
        return {"uses": self._uses}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._uses = int(state["uses"])


@dataclass(frozen=True)
class Shift:
    """Shifts every image separately by whole pixels, and repeats the edge pixels.

    Parameters
    ----------
    share
        The largest shift in each direction, as a share of the side: .107 is 3 of 28 pixels.
    """

    share: float = 0.107

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        images = tasks.images.flatten(0, 1).cpu().numpy()  # [T*N, C, H, W]
        N, _, H, W = images.shape
        most = round(self.share * W)
        # Add a border and cut out a shifted window: this needs no floats.
        bordered = np.pad(images, [(0, 0), (0, 0), (most, most), (most, most)], mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(bordered, (H, W), axis=(2, 3))
        each = [rng.integers(2 * most + 1, size=(2, N // len(rngs))) for rng in rngs]
        down, right = np.concatenate(each, axis=1)
        moved = torch.from_numpy(windows[np.arange(N), :, down, right])
        return TaskBatch(moved.reshape(tasks.images.shape).to(tasks.images.device), tasks.geometry)


@dataclass(frozen=True)
class Turn:
    """Turns whole classes, support and query alike. A turned class counts as another class.

    Each is turned by a quarter, a half or three quarters of a circle, with equal probability.
    Images that are not square can only turn by a half.

    Parameters
    ----------
    share
        The expected share of turned classes. .75 makes all four directions equally frequent.
    """

    share: float = 0.75

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        images, ways = tasks.images.cpu().numpy().copy(), tasks.geometry.ways
        square = images.shape[-2] == images.shape[-1]
        quarters = np.stack([rng.integers(1, 4, ways) for rng in rngs]) if square else 2
        quarters = quarters * np.stack([rng.random(ways) < self.share for rng in rngs])
        label = torch.cat([tasks.support_labels, tasks.query_labels]).cpu().numpy()
        of_image = quarters[:, label]  # [T, images of a task]
        for quarter in np.unique(quarters[quarters > 0]).tolist():
            these = of_image == quarter
            images[these] = np.rot90(images[these], quarter, (-2, -1))
        return TaskBatch(torch.from_numpy(images).to(tasks.images.device), tasks.geometry)


@dataclass(frozen=True)
class Resplit:
    """Draws again which examples of a class are its support and which its queries.

    A stored 1-shot task with 5 queries per class and 5 classes has 6^5 such forms.

    Parameters
    ----------
    share
        The probability that a task is split again.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> rows = torch.tensor([10.0, 20, 11, 12, 21, 22]).reshape(1, 6, 1)
    >>> tasks = TaskBatch(rows, TaskGeometry(ways=2, shots=1, queries=2))
    >>> out = Resplit()(tasks, [np.random.default_rng(0)])
    >>> out.support.flatten().tolist(), out.query.flatten().tolist()
    ([12.0, 22.0], [10.0, 11.0, 21.0, 20.0])
    """

    share: float = 1.0

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        g = tasks.geometry
        support = np.arange(g.ways * g.shots).reshape(g.ways, g.shots)
        query = support.size + np.arange(g.ways * g.queries).reshape(g.ways, g.queries)
        by_class = np.concatenate([support, query], axis=1)  # [ways, shots+queries]
        drawn = np.stack([
            rng.permuted(by_class, axis=1) if rng.random() < self.share else by_class
            for rng in rngs
        ])  # fmt: skip
        split = np.split(drawn, [g.shots], axis=2)
        places = np.concatenate([part.reshape(len(tasks), -1) for part in split], axis=1)
        examples = tasks.examples[torch.arange(len(tasks))[:, None], torch.from_numpy(places)]
        return TaskBatch(examples, g)
