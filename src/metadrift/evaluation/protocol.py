"""The evaluation protocol: the same unseen tasks of every domain, for every method."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from metadrift.data.sampler import TaskSampler
from metadrift.distributed.group import Group
from metadrift.errors import MetadriftError, UsageError
from metadrift.learners.base import MetaLearner
from metadrift.learners.outcome import accuracy_of
from metadrift.randomness import Purpose, generator

TASKS = 750  # per domain, as in the paper's section 5
_BLOCK = 50  # tasks drawn together
_BYTES_PER_PASS = 1 << 28  # of the widest layer of a forward pass: 256 MB


@dataclass(frozen=True)
class DomainAccuracy:
    """Accuracy on the tasks of one domain, as shares of 1.

    Parameters
    ----------
    mean, ci95
        Mean over tasks, and the half width of its 95 % interval (1.96 standard errors).
    tasks
        The number of tasks.
    per_task
        float64 [tasks], in the order of `evaluation_tasks`.

    Examples
    --------
    >>> accuracy = DomainAccuracy.of(np.array([0.5, 0.7, 0.6]))
    >>> round(accuracy.mean, 2), round(accuracy.ci95, 2), accuracy.tasks
    (0.6, 0.11, 3)
    """

    mean: float
    ci95: float
    tasks: int
    per_task: NDArray[np.float64]

    @classmethod
    def of(cls, per_task: NDArray[np.float64]) -> DomainAccuracy:
        n = len(per_task)
        ci95 = 1.96 * float(per_task.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
        return cls(float(per_task.mean()), ci95, n, per_task)


def evaluate(
    learner: MetaLearner,
    samplers: Mapping[str, TaskSampler],
    *,
    tasks: int = TASKS,
    seed: int = 0,
    batch: int | None = None,
    half_width: float | None = None,
    progress: Callable[[int], None] | None = None,
    group: Group | None = None,
) -> dict[str, DomainAccuracy]:
    """Accuracy on `tasks` tasks of each domain, many tasks in one forward pass.

    The learner is in evaluation mode meanwhile. It is not changed.

    Parameters
    ----------
    samplers
        From a domain's name to the sampler of its test classes. To choose settings, pass samplers
        of the validation classes.
    seed
        The seed of the tasks. The same seed gives every learner the same tasks.
    batch
        Tasks per forward pass; by default as many as fit 256 MB in the widest layer.
    half_width
        Stop a domain once the half width of its 95 % interval is at most this (accuracy from 0 to
        1). It is checked after every 50 tasks.
    progress
        Called with the number of tasks done after each forward pass.
    group
        The processes that share the tasks. Each gets the whole result.
    """
    scorer = _Scorer(learner, batch, progress or (lambda done: None), group or Group())
    found = {}
    for name, sampler in samplers.items():
        rows = evaluation_tasks(sampler, name, tasks=tasks, seed=seed)
        step = len(rows) if half_width is None else _BLOCK
        scored = np.empty(0)
        for start in range(0, len(rows), step):
            scored = np.append(scored, scorer(sampler, rows[start : start + step]))
            found[name] = DomainAccuracy.of(scored)
            if half_width is not None and found[name].ci95 <= half_width:
                break
    return found


def evaluation_tasks(
    sampler: TaskSampler, domain: str, *, tasks: int = TASKS, seed: int = 0
) -> NDArray[np.int64]:
    """The rows of the pack that make the evaluation tasks: int64 [tasks, ways*(shots+queries)].

    They depend only on the seed, the domain's name and the geometry. A smaller number of tasks
    gives the first ones of a larger number.
    """
    if tasks < 1:
        raise UsageError(f"an evaluation needs at least one task per domain, not {tasks}")
    g = sampler.geometry
    key = zlib.crc32(domain.encode()), g.ways, g.shots, g.queries
    blocks = [
        sampler.choose(_BLOCK, generator(seed, Purpose.EVALUATION, *key, block))
        for block in range(-(-tasks // _BLOCK))
    ]
    return np.concatenate(blocks)[:tasks]


def overall(domains: Mapping[str, DomainAccuracy]) -> tuple[float, float]:
    """The mean of the domains' means, with equal weights, and its ci95."""
    if not domains:
        raise MetadriftError("there is no domain to average over")
    means = [accuracy.mean for accuracy in domains.values()]
    half_widths = np.array([accuracy.ci95 for accuracy in domains.values()])
    return float(np.mean(means)), float(np.sqrt(np.square(half_widths).sum())) / len(means)


class _Scorer:
    """Accuracy of single tasks, by forward passes over many of them."""

    def __init__(
        self,
        learner: MetaLearner,
        batch: int | None,
        progress: Callable[[int], None],
        group: Group,
    ) -> None:
        self.learner, self.batch, self.progress, self.group = learner, batch, progress, group
        self.like = learner.like

    def __call__(self, sampler: TaskSampler, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64 [tasks], from the rows of the pack that make the tasks."""
        every = np.zeros(len(rows))
        mine = every[self.group.rank :: self.group.size]
        rows = rows[self.group.rank :: self.group.size]
        step = self.batch or self._tasks_per_pass(sampler)
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            mine[some] = self._pass(sampler, rows[some])
            self.progress(len(rows[some]))
        self.group.wait()  # with patience: this takes longer than a step, and processes differ
        return self.group.sum(every)

    def _pass(self, sampler: TaskSampler, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        tasks, ways = sampler.gather(rows).to(self.like.device), sampler.geometry.ways
        logits = self.learner.predict(tasks.support, tasks.support_labels, tasks.query, ways=ways)
        if not bool(torch.isfinite(logits).all()):
            raise MetadriftError(
                f"the learner's answers on {sampler.pack.name!r} are NaN or infinite: its weights "
                "diverged, most likely because the learning rate is too high"
            )
        return accuracy_of(logits).double().cpu().numpy()

    def _tasks_per_pass(self, sampler: TaskSampler) -> int:
        size = 2 if self.learner.precision == "bf16" else self.like.element_size()
        an_example = sampler.kind.numbers_in_network * size
        return max(1, _BYTES_PER_PASS // (an_example * sampler.geometry.images_per_task))
