"""The evaluation protocol: the same unseen tasks of every domain, for every method."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from metadrift.data.sampler import TaskSampler
from metadrift.errors import MetadriftError, UsageError
from metadrift.learners.base import MetaLearner
from metadrift.learners.outcome import accuracy_of
from metadrift.randomness import Purpose, generator

TASKS = 750  # a domain, as in the paper's section 5
_BLOCK = 50  # tasks drawn together
_FLOATS_A_PASS = 1 << 26  # 256 MB in the widest layer of a forward pass


@dataclass(frozen=True)
class DomainAccuracy:
    """Accuracy on the tasks of one domain, as shares of 1.

    Parameters
    ----------
    mean, ci95
        Mean over tasks, and the half width of its 95 % interval (1.96 standard errors).
    tasks
        How many tasks.
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
    progress: Callable[[int], None] | None = None,
    share: slice = slice(None),
) -> dict[str, DomainAccuracy]:
    """Accuracy on `tasks` tasks of each domain, many tasks in one forward pass.

    The learner is in evaluation mode meanwhile and comes out as it went in.

    Parameters
    ----------
    samplers
        Domain name to the sampler of its test classes (of its validation classes for choices).
    seed
        Which tasks; the same seed gives every learner the same ones.
    batch
        Tasks a forward pass; by default what fits 256 MB in the widest layer.
    progress
        Told the number of tasks done after each forward pass.
    share
        Which of the tasks are scored here, where several processes divide them.
    """
    return {
        name: _evaluate_domain(
            learner,
            sampler,
            evaluation_tasks(sampler, name, tasks=tasks, seed=seed)[share],
            batch,
            progress,
        )
        for name, sampler in samplers.items()
    }


def evaluation_tasks(
    sampler: TaskSampler, domain: str, *, tasks: int = TASKS, seed: int = 0
) -> NDArray[np.int64]:
    """The rows of the pack that make the evaluation tasks: int64 [tasks, ways*(shots+queries)].

    Fixed by the seed, the domain's name and the geometry, whatever else was drawn before. Fewer
    tasks are the first of more, so accuracies over different numbers of tasks share them.
    """
    if tasks < 1:
        raise UsageError(f"an evaluation needs at least one task a domain, not {tasks}")
    g = sampler.geometry
    key = zlib.crc32(domain.encode()), g.ways, g.shots, g.queries
    blocks = [
        sampler.choose(_BLOCK, generator(seed, Purpose.EVALUATION, *key, block))
        for block in range(-(-tasks // _BLOCK))
    ]
    return np.concatenate(blocks)[:tasks]


def overall(domains: Mapping[str, DomainAccuracy]) -> tuple[float, float]:
    """The mean of the domains' means, every domain counting the same, and its ci95."""
    if not domains:
        raise MetadriftError("there is no domain to average over")
    means = [accuracy.mean for accuracy in domains.values()]
    half_widths = np.array([accuracy.ci95 for accuracy in domains.values()])
    return float(np.mean(means)), float(np.sqrt(np.square(half_widths).sum())) / len(means)


def _evaluate_domain(
    learner: MetaLearner,
    sampler: TaskSampler,
    rows: NDArray[np.int64],
    batch: int | None,
    progress: Callable[[int], None] | None,
) -> DomainAccuracy:
    device, ways = next(learner.parameters()).device, sampler.geometry.ways
    step = batch or _tasks_a_pass(sampler)
    parts: list[NDArray[np.float64]] = []
    for start in range(0, len(rows), step):
        tasks = sampler.gather(rows[start : start + step]).to(device)
        logits = learner.predict(tasks.support, tasks.support_labels, tasks.query, ways=ways)
        if not bool(torch.isfinite(logits).all()):
            raise MetadriftError(
                f"the learner's answers on {sampler.pack.name!r} are NaN or infinite: its weights "
                "have gone wrong, most likely by a learning rate that is too high"
            )
        parts.append(accuracy_of(logits).double().cpu().numpy())
        if progress:
            progress(len(parts[-1]))
    return DomainAccuracy.of(np.concatenate(parts))


def _tasks_a_pass(sampler: TaskSampler) -> int:
    floats_an_image = 64 * sampler.pack.image_size**2
    return max(1, _FLOATS_A_PASS // (floats_an_image * sampler.geometry.images_per_task))
