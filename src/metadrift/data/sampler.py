"""Drawing few-shot tasks from one split of a pack."""

from __future__ import annotations

import numpy as np
import torch

from metadrift.data.names import hashed_names
from metadrift.data.pack import Pack, Split
from metadrift.errors import MetadriftError
from metadrift.examples import ExampleKind
from metadrift.tasks import TaskBatch, TaskGeometry

_MOST_KEYS = 2000


class TaskSampler:
    """Draws tasks of one geometry from the classes of one split.

    Classes within a task are distinct and in random order, and no example appears twice in a task.
    Examples are gathered straight from the memory map into one block.

    Parameters
    ----------
    pack, split, geometry
        Which examples, which classes, what kind of task.
    kind
        What the tasks' examples are, by default the pack's own. Colour repeats the channel of a
        grey pack (as a view), so that a stream over grey and colour domains has one shape.
    context
        Give every task the mean of its classes' names as its context (`hashed_names`).
    """

    def __init__(
        self,
        pack: Pack,
        split: Split,
        geometry: TaskGeometry,
        kind: ExampleKind | None = None,
        context: bool = False,
    ) -> None:
        self.pack = pack
        self.geometry = geometry
        self.kind = kind or pack.kind
        if not self.kind.holds(pack.kind):
            raise MetadriftError(
                f"pack {pack.name!r} holds {pack.kind}; they cannot be drawn as {self.kind}"
            )
        classes = pack.classes(split)
        enough = [c for c in classes if pack.class_size(c) >= geometry.images_per_class]
        if len(enough) < geometry.ways:
            raise MetadriftError(
                f"pack {pack.name!r} has {len(enough)} {split} classes with at least "
                f"{geometry.images_per_class} examples ({geometry.shots} shots + "
                f"{geometry.queries} queries) of {len(classes)}; a {geometry.ways}-way task needs "
                f"{geometry.ways}"
            )
        self._first = np.array([pack.class_offsets[c] for c in enough])
        self._size = np.array([pack.class_size(c) for c in enough])
        self._class = np.array(enough)
        self._names = hashed_names(pack.class_names) if context else None

    def draw(self, tasks: int, rng: np.random.Generator) -> TaskBatch:
        """T new tasks."""
        return self.gather(self.choose(tasks, rng))

    def choose(self, tasks: int, rng: np.random.Generator) -> np.ndarray:
        """The rows of the pack that make T tasks: int64 [T, ways*(shots+queries)]."""
        g = self.geometry
        everywhere = np.full(tasks, len(self._first))
        classes = distinct(everywhere, g.ways, rng).ravel()
        images = distinct(self._size[classes], g.images_per_class, rng)
        rows = (self._first[classes][:, None] + images).reshape(tasks, g.ways, -1)
        support = rows[:, :, : g.shots].reshape(tasks, -1)
        query = rows[:, :, g.shots :].reshape(tasks, -1)
        return np.concatenate([support, query], axis=1)

    def gather(self, rows: np.ndarray) -> TaskBatch:
        """Copy the chosen examples out of the memory map."""
        # np.take is faster than fancy indexing on a memory map, and gives a plain array.
        block = np.take(self.pack.examples, rows, axis=0)
        return TaskBatch(self.kind.from_pack(block), self.geometry, self._context(rows))

    def _context(self, rows: np.ndarray) -> torch.Tensor | None:
        if self._names is None:
            return None
        g = self.geometry
        one_per_class = rows[:, : g.ways * g.shots : g.shots]
        classes = np.searchsorted(self.pack.class_offsets, one_per_class, side="right") - 1
        return torch.from_numpy(self._names[classes].mean(1))


def distinct(sizes: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """For each size n: k distinct numbers below n in random order: int64 [len(sizes), k].

    Every number gets a random key and the k smallest keys win, for all rows at once. Where that
    would mean too many keys, the rows are drawn one by one.
    """
    most = int(sizes.max())
    if most > _MOST_KEYS:
        return np.stack([rng.choice(n, k, replace=False) for n in sizes.tolist()])
    keys = rng.random((len(sizes), most))
    keys[np.arange(most) >= sizes[:, None]] = 2.0  # beyond the end: never among the smallest
    if k < most:
        smallest = np.argpartition(keys, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(keys, smallest, 1), axis=1)
        return np.take_along_axis(smallest, order, 1)
    return np.argsort(keys, axis=1)
