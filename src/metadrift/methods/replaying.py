"""The base class of methods with a memory: draw stored batches, learn from them, store new ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from metadrift import registry
from metadrift.errors import UsageError
from metadrift.learners import MetaLearner, Outcome
from metadrift.memory import Arrival, Memory
from metadrift.methods.base import Method, StepOutcome, StepRecord
from metadrift.methods.config import ReplayConfig
from metadrift.methods.parts import MethodParts
from metadrift.methods.rehearsal import rehearse
from metadrift.methods.specialists import Specialists
from metadrift.randomness import Purpose
from metadrift.replay import (
    Replay,
    ReplaySampler,
    UniformReplay,
    dark_term,
    domain_balance,
)
from metadrift.replay.base import gather
from metadrift.tasks import TaskBatch


class ReplayingMethod(Method):
    """Learns the arriving tasks together with some from memory.

    Parameters
    ----------
    memory
        The memory.
    config
        The settings of replay.
    rng
        The generator of the draws.
    sampler
        Chooses the stored batches to draw; uniform by default.

    Attributes
    ----------
    specialists
        The copies of the last rehearsal, which evaluation and predictions then use. Default: none.
    """

    memory_rule: ClassVar[str] = "reservoir"
    """The memory that it has unless `--memory` names another."""
    memory_kind: ClassVar[type] = Memory
    """What its memory must at least be."""
    chooses_memory: ClassVar[bool] = True
    """True if `--memory` may name another memory."""
    draws: ClassVar[bool] = True
    """True if `--sampler` chooses what is replayed."""

    @classmethod
    def make(cls, parts: MethodParts) -> Self:
        return registry.call(cls, **cls.common(parts))

    @classmethod
    def common(cls, parts: MethodParts) -> dict[str, Any]:
        """The arguments of `__init__` that all methods with a memory share, without the sampler."""
        return {
            "learner": parts.learner,
            "optimizer": parts.optimizer,
            "memory": cls.make_memory(parts),
            "config": parts.replay,
            "rng": parts.rng(Purpose.REPLAY),
        }

    @classmethod
    def make_memory(cls, parts: MethodParts) -> Memory:
        """The memory that the settings name, or the method's own."""
        kind = parts.memory_class or registry.subclass("memories", cls.memory_rule, Memory)
        if not issubclass(kind, cls.memory_kind):
            needed, given = cls.memory_kind.__name__, parts.memory.rule or kind.__name__
            raise UsageError(f"{cls.__name__} needs a memory that is a {needed}, not {given}")
        keep = parts.rng(Purpose.MEMORY)
        return registry.made(kind, parts.room(), keep, options=parts.all_options)

    def __init__(
        self,
        learner: MetaLearner,
        optimizer: torch.optim.Optimizer,
        memory: Memory,
        config: ReplayConfig,
        rng: np.random.Generator,
        sampler: ReplaySampler | None = None,
    ) -> None:
        super().__init__(learner, optimizer)
        self.memory = memory
        self.config = config
        self.rng = rng
        self.sampler = sampler or UniformReplay()
        self.specialists: Specialists | None = None

    @property
    def evaluated(self) -> MetaLearner:
        return self.specialists or super().evaluated

    def rehearse(
        self, steps: int, progress: Callable[[int], None] = lambda more: None
    ) -> Specialists | None:
        """Train copies of the learner on memory alone, for evaluation and predictions.

        See `metadrift.methods.rehearsal`. Too few steps, or none, leave no copies.
        """
        self.specialists = None
        with self.clock("rehearsal"):
            self.specialists = rehearse(self, steps, progress)
        return self.specialists

    def step(self, tasks: TaskBatch) -> StepRecord:
        outcome = self.learn(self.fresh(tasks), self.draw())
        return outcome.record(admitted=self.remember(self.arrival(tasks, outcome)))

    def draw(self) -> list[Replay]:
        """This step's stored batches, transformed for training."""
        with self.clock("replay"):
            # All processes choose the same slots and take their share of them.
            n = self.config.batches * self.group.size
            slots, weights = self.sampler.choose(self.memory, n, self.rng)
            mine = self.group.share(len(slots))
            return self.replays(slots[mine], weights[mine])

    def replays(self, slots: Sequence[int], weights: Sequence[float] | None = None) -> list[Replay]:
        """Stored batches, transformed for training, with their weights (1 by default)."""
        return [
            replace(stored, tasks=self.fresh_tasks.replayed(stored.tasks, self.group.rank))
            for stored in gather(self.memory, slots, weights or [1.0] * len(slots))
        ]

    def outcome_of(self, replays: Sequence[Replay]) -> Outcome:
        """The learner's outcome on these batches in one forward pass."""
        together = TaskBatch.concatenate([replay.tasks for replay in replays])
        return self.outcome(together, self.owners(replays))

    def learn(self, tasks: TaskBatch, replays: Sequence[Replay]) -> StepOutcome:
        """One optimiser step on the arriving and the replayed tasks."""
        return self.apply(self.forward(tasks, replays))

    def forward(self, tasks: TaskBatch, replays: Sequence[Replay] = ()) -> StepOutcome:
        """Arriving and replayed tasks in a single forward pass."""
        together = TaskBatch.concatenate([tasks, *(replay.tasks for replay in replays)])
        every = self.outcome(together, self.owners(replays, tasks))
        arriving = every[: len(tasks)]
        if not replays:
            return StepOutcome(arriving, arriving.loss.mean())
        replayed = every[len(tasks) :]
        objective = arriving.loss.mean() + self.replay_term(replayed, replays)
        return StepOutcome(arriving, objective, replayed, len(replays))

    def owners(self, replays: Sequence[Replay], arriving: TaskBatch | None = None) -> list[int]:
        """A number per task, arriving tasks first; the same for the tasks of one batch."""
        sizes = [len(arriving or ()), *(len(replay.tasks) for replay in replays)]
        return [number for number, size in enumerate(sizes) for _ in range(size)]

    def replay_term(self, replayed: Outcome, replays: Sequence[Replay]) -> Tensor:
        """The replay term of the objective: the weighted mean loss of the replayed tasks."""
        each = replayed.loss
        if self.config.dark:
            kept, known = self.memory.buffer.get_logits([replay.slot for replay in replays])
            each = each + self.config.dark * dark_term(replayed.logits, kept, known)
        listed = [replay.weight for replay in replays for _ in range(len(replay.tasks))]
        weights = torch.tensor(listed, dtype=each.dtype).to(self.device, non_blocking=True)
        balance = domain_balance(len(self.memory.counts())) if self.config.balance else 1.0
        return balance * (weights * each).mean()

    def arrival(self, tasks: TaskBatch, outcome: StepOutcome, label: int = 0) -> Arrival:
        """The arriving batch as memory receives it."""
        return Arrival(tasks, label, outcome.importance, outcome.arriving.logits)

    def remember(self, arrival: Arrival) -> bool:
        """Offer the arriving batch to memory; True if memory took it."""
        with self.clock("memory"):
            return self.memory.offer(arrival) is not None

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict() | {
            "memory": self.memory.state_dict(),
            "sampler": self.sampler.state_dict(),
            "rng": self.rng.bit_generator.state,
        }
        copies = self.specialists
        return state if copies is None else state | {"specialists": copies.saved()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.memory.load_state_dict(state["memory"])
        self.sampler.load_state_dict(state["sampler"])
        self.rng.bit_generator.state = state["rng"]
        self.specialists = None
        if "specialists" in state:
            self.specialists = Specialists.restored(self.evaluated, state["specialists"])
