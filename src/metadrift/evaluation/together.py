"""An evaluation whose tasks several processes divide."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from metadrift.data.sampler import TaskSampler
from metadrift.distributed.group import Group
from metadrift.evaluation.protocol import DomainAccuracy, evaluate
from metadrift.learners import MetaLearner


def evaluate_together(
    learner: MetaLearner,
    samplers: Mapping[str, TaskSampler],
    *,
    tasks: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
    group: Group,
) -> dict[str, DomainAccuracy]:
    """As `evaluate`; each process scores every size-th task, and all get the whole result."""
    if group.size == 1 or tasks < group.size:
        return evaluate(learner, samplers, tasks=tasks, seed=seed, progress=progress)
    share = slice(group.rank, None, group.size)
    mine = evaluate(learner, samplers, tasks=tasks, seed=seed, progress=progress, share=share)
    table = np.zeros((len(mine), tasks))
    table[:, share] = [scored.per_task for scored in mine.values()]
    group.wait()  # this took longer than a step, and not everywhere the same
    rows = zip(mine, group.sum(table), strict=True)
    return {name: DomainAccuracy.of(row) for name, row in rows}
