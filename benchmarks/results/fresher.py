"""What else fresh tasks could have: m2d3-pets whose pictures are changed in one more way.

    export PYTHONPATH=benchmarks/results
    GRID=fresher DATA=FOLDER WITH="--plugin fresher:Fresher" make measure

Each way comes on top of the shift and the turn, at random, drawn anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.replay.transforms import FreshTasks, Generators
from metadrift.tasks import TaskBatch

Images = NDArray[np.uint8]  # of one task, by class: [ways, examples of a class, C, H, W]


class Fresher(M2D3PETS):
    """m2d3-pets with one more kind of change."""

    @dataclass(frozen=True)
    class Options:
        more: Literal["mirror", "zoom", "cutout", "colour", "blend"] = "mirror"
        """Mirror whole classes, enlarge pictures, cover a square, mix up the channels of whole
        classes, or blend each class with another one."""

    options: Options

    @property
    def fresh_tasks(self) -> FreshTasks:
        return self._fresh

    @fresh_tasks.setter
    def fresh_tasks(self, fresh: FreshTasks) -> None:
        self._fresh = fresh
        if fresh.transforms:
            fresh.transforms = [*fresh.transforms, ByTask(WAYS[self.options.more])]


@dataclass(frozen=True)
class ByTask:
    """Applies a function to each task's images, ordered by class."""

    change: Callable[[Images, np.random.Generator], Images]

    def __call__(self, tasks: TaskBatch, rngs: Generators) -> TaskBatch:
        labels = np.concatenate([tasks.support_labels, tasks.query_labels])
        order = np.argsort(labels, kind="stable")
        images = tasks.images.numpy().copy()
        for i, rng in enumerate(rngs):
            by_class = images[i, order].reshape(tasks.geometry.ways, -1, *images.shape[2:])
            images[i, order] = self.change(by_class, rng).reshape(-1, *images.shape[2:])
        return TaskBatch(tasks.images.new_tensor(images), tasks.geometry)


def mirror(images: Images, rng: np.random.Generator) -> Images:
    """Half of the classes, every picture of a class alike: it counts as another class."""
    chosen = rng.random(len(images)) < 0.5
    images[chosen] = images[chosen][..., ::-1]
    return images


def zoom(images: Images, rng: np.random.Generator) -> Images:
    """Every picture: a random window of 75 to 100 % of the side, enlarged to the old size."""
    side = images.shape[-1]
    every = images.reshape(-1, *images.shape[2:])
    for i, share in enumerate(rng.uniform(0.75, 1.0, len(every))):
        size = max(round(share * side), 1)
        top, left = rng.integers(side - size + 1, size=2)
        places = np.arange(side) * size // side
        every[i] = every[i][:, top + places[:, None], left + places]
    return every.reshape(images.shape)


def cutout(images: Images, rng: np.random.Generator) -> Images:
    """Every picture: a square of a quarter of the side has the picture's mean."""
    side = images.shape[-1]
    size = side // 4
    for picture in images.reshape(-1, *images.shape[2:]):
        top, left = rng.integers(side - size + 1, size=2)
        picture[:, top : top + size, left : left + size] = picture.mean()
    return images


def colour(images: Images, rng: np.random.Generator) -> Images:
    """Every class has its channels in a random order: it counts as another class."""
    for pictures in images:
        pictures[:] = pictures[:, rng.permutation(pictures.shape[1])]
    return images


def blend(images: Images, rng: np.random.Generator) -> Images:
    """Half of the tasks: each class is mixed with the next one, half and half."""
    if rng.random() < 0.5:
        return images
    mixed = (images.astype(np.uint16) + np.roll(images, 1, axis=0)) // 2
    return mixed.astype(np.uint8)


WAYS: dict[str, Callable[[Images, np.random.Generator], Any]] = {
    "mirror": mirror,
    "zoom": zoom,
    "cutout": cutout,
    "colour": colour,
    "blend": blend,
}
