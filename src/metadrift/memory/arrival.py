"""The value that a memory receives for each arriving batch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from metadrift.tasks import TaskBatch


@dataclass(frozen=True)
class Arrival:
    """One arriving batch of tasks, with the measurements of its training step.

    Parameters
    ----------
    tasks
        The batch as it arrived. Memory stores this form.
    label
        Its latent domain; 0 in methods that have none.
    importance
        How hard it is: a finite number of at least 0.
    logits
        Query logits [T, ways*queries, ways], for a buffer that keeps logits.
    similarity
        The largest cosine of its gradient with those of some stored batches, for GSS.
    """

    tasks: TaskBatch
    label: int = 0
    importance: float = 1.0
    logits: Tensor | None = None
    similarity: float | None = None
