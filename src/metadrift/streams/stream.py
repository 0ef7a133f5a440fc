"""Streams of task batches: domain after domain, or all domains at once.

Every batch is drawn with a generator that depends only on the seed and the step. So a stream's
whole state is its step, and reading ahead in a thread cannot change the sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from metadrift.data.pack import Pack, Split
from metadrift.data.sampler import TaskSampler
from metadrift.examples import common_kind
from metadrift.randomness import Purpose, generator
from metadrift.streams.benchmark import Benchmark
from metadrift.streams.truth import Truth
from metadrift.tasks import TaskBatch, TaskGeometry


class Stream(Protocol):
    """What a run reads: batches in order, and a state to continue from."""

    def __iter__(self) -> Iterator[TaskBatch]: ...
    def __next__(self) -> TaskBatch: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class TaskStream:
    """The domains of a benchmark one after the other.

    Where a segment has a `blend`, each task of its first steps is drawn from it or from the domain
    before.

    Parameters
    ----------
    benchmark
        The order of domains, the steps of each, the tasks per step.
    packs
        The pack of each domain.
    geometry
        Ways, shots and queries of every task.
    seed
        The same seed gives the same bytes.
    split
        The classes that tasks are made of.
    context
        Let every task carry its classes' names as a vector, for detection.

    Attributes
    ----------
    kind
        What the tasks' examples are.
    share
        Which tasks of each step are read: all, or those of one of several processes.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        packs: dict[str, Pack],
        geometry: TaskGeometry,
        seed: int,
        split: Split = "train",
        context: bool = False,
    ) -> None:
        self.geometry = geometry
        self.tasks_per_step = benchmark.tasks_per_step
        kinds = {name: packs[name].kind for name in benchmark.domains}
        self.kind = common_kind(kinds, f"benchmark {benchmark.name!r}")
        self.share = slice(None)
        self.step = 0
        self._seed = seed
        self._steps = benchmark.steps
        self._truth = Truth(benchmark.segments)
        self._samplers = {
            name: TaskSampler(packs[name], split, geometry, self.kind, context)
            for name in benchmark.domains
        }

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[TaskBatch]:
        return self

    def __next__(self) -> TaskBatch:
        if self.step >= self._steps:
            raise StopIteration
        batch = self.batch(self.step)
        self.step += 1
        return batch

    def batch(self, step: int) -> TaskBatch:
        """The batch of any step; it does not depend on what was read before."""
        domain, (before, likely) = self._truth.domain_at(step), self._truth.blend_at(step)
        rng = generator(self._seed, Purpose.STREAM, step)
        if likely:
            late = rng.random(self.tasks_per_step) < likely
            return self._mixed([before if old else domain for old in late.tolist()], rng)
        sampler = self._samplers[domain]
        return sampler.gather(sampler.choose(self.tasks_per_step, rng)[self.share])

    def _mixed(self, domains: Sequence[str], rng: np.random.Generator) -> TaskBatch:
        """A batch with one task of each of these domains."""
        chosen = [(sampler := self._samplers[name], sampler.choose(1, rng)) for name in domains]
        return TaskBatch.concatenate([sampler.gather(rows) for sampler, rows in chosen[self.share]])

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])


class JointStream(TaskStream):
    """All domains at once, for as many steps: the upper bound called joint training.

    Of every L tasks in a row, one comes from each of the L domains, in a fresh random order.
    """

    def batch(self, step: int) -> TaskBatch:
        rng = generator(self._seed, Purpose.STREAM, step)
        first = step * self.tasks_per_step
        return self._mixed(
            [self._domain_of_task(first + t) for t in range(self.tasks_per_step)], rng
        )

    def _domain_of_task(self, task: int) -> str:
        names = list(self._samplers)
        turn, place = divmod(task, len(names))
        order = generator(self._seed, Purpose.JOINT_ORDER, turn).permutation(len(names))
        return names[int(order[place])]
