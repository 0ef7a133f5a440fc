"""MIR: replay the stored batches that a step on the arriving tasks would hurt most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from metadrift.learners import frozen_statistics
from metadrift.methods.base import StepRecord
from metadrift.methods.optimisation import load_optimizer_state, optimizer_state
from metadrift.methods.parts import MethodParts
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import Replay, candidates, most_interfered
from metadrift.tasks import TaskBatch


class MIR(ReplayingMethod):
    """Maximally interfered retrieval on tasks, with a reservoir.

    Take one virtual step of the actual optimiser on the arriving tasks. Of the candidates drawn
    from memory, replay those whose loss rises most.

    Attributes
    ----------
    candidates
        Stored batches to score at each step.

    References
    ----------
    Aljundi et al., Online continual learning with maximally interfered retrieval, 2019.
    """

    many_processes = False
    draws = False
    candidates: int

    @classmethod
    def make(cls, parts: MethodParts) -> Self:
        method = super().make(parts)
        method.candidates = parts.baseline.mir_candidates
        return method

    def step(self, tasks: TaskBatch) -> StepRecord:
        fresh = self.fresh(tasks)
        outcome = self.learn(fresh, self.interfered(fresh))
        return outcome.record(admitted=self.remember(self.arrival(tasks, outcome)))

    def interfered(self, tasks: TaskBatch) -> list[Replay]:
        """The b candidates whose loss rises most in a virtual step."""
        slots = candidates(self.memory, self.candidates, self.rng)
        if not slots:
            return []
        replays = self.replays(slots)
        with frozen_statistics(self.learner):
            before = self.losses(replays)
            undo = self.virtual_step(tasks)
            after = self.losses(replays)
            undo()
        chosen = most_interfered((after - before).cpu().tolist(), self.config.batches)
        return [replays[i] for i in chosen]

    @torch.no_grad()
    def losses(self, replays: list[Replay]) -> Tensor:
        """The mean loss of each batch, [len(replays)]."""
        return self.outcome_of(replays).loss.view(len(replays), -1).mean(1)

    def virtual_step(self, tasks: TaskBatch) -> Callable[[], None]:
        """Step on the arriving tasks. Returns a function that undoes it, bit for bit.

        A loss that is not finite is ignored here, because the true step refuses it.
        """
        weights = [p.detach().clone() for p in self.parameters()]
        moments = optimizer_state(self.optimizer)
        self.backward(self.outcome(tasks, [0] * len(tasks)).loss.mean())
        self.move(get_total_norm([p.grad for p in self.parameters() if p.grad is not None]))

        def undo() -> None:
            with torch.no_grad():
                for p, saved in zip(self.parameters(), weights, strict=True):
                    p.copy_(saved)
            load_optimizer_state(self.optimizer, moments)

        return undo
