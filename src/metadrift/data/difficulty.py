"""How hard a domain is for the simplest learner: the nearest class mean of raw examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metadrift.data.pack import Pack, Split
from metadrift.data.sampler import TaskSampler
from metadrift.errors import UsageError
from metadrift.tasks import TaskGeometry


@dataclass(frozen=True)
class Difficulty:
    """Accuracy over tasks, 0..1, with the half width of its 95 % interval."""

    accuracy: float
    ci95: float
    tasks: int


def nearest_centroid(
    pack: Pack,
    geometry: TaskGeometry,
    tasks: int,
    rng: np.random.Generator,
    split: Split = "test",
) -> Difficulty:
    """Predict each query's class by the nearest mean of the support examples, on tasks from a pack.

    Of pictures only whole numbers are added and compared: the result is the same on every machine.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from metadrift.data.pack import open_pack, write_pack
    >>> rows = [(f"grey {v}", "test", np.full((6, 8, 8, 1), v, np.uint8)) for v in (0, 90, 180)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack = open_pack(write_pack(Path(folder) / "g", "g", rows, source="", licence=""))
    ...     nearest_centroid(pack, TaskGeometry(3, 1, 5), 10, np.random.default_rng(0))
    Difficulty(accuracy=1.0, ci95=0.0, tasks=10)
    """
    if tasks < 2:
        raise UsageError(f"an interval needs at least 2 tasks, not {tasks}")
    sampler = TaskSampler(pack, split, geometry)
    truth = np.arange(geometry.ways).repeat(geometry.queries)
    scores = np.empty(tasks)
    for t, rows in enumerate(sampler.choose(tasks, rng)):
        raw = np.take(pack.examples, rows, axis=0).reshape(len(rows), -1).astype(np.float64)
        support, query = np.split(raw, [geometry.ways * geometry.shots])
        total = support.reshape(geometry.ways, geometry.shots, -1).sum(1)
        # |query - total/shots|^2 up to what does not depend on the class, times shots^2.
        far = (total * total).sum(1) - 2 * geometry.shots * (query @ total.T)
        scores[t] = np.mean(far.argmin(1) == truth)
    ci95 = 1.96 * float(scores.std(ddof=1)) / tasks**0.5
    return Difficulty(float(scores.mean()), ci95, tasks)
