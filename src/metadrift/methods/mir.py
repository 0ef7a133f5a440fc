"""MIR: replay what the arriving tasks are about to make the learner forget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from metadrift.learners import MetaLearner, frozen_statistics
from metadrift.memory import Memory
from metadrift.methods.base import StepRecord, load_optimizer_state, optimizer_state
from metadrift.methods.config import ReplayConfig
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import Replay, candidates, most_interfered
from metadrift.replay.base import gather
from metadrift.tasks import TaskBatch


class MIR(ReplayingMethod):
    """Maximally interfered retrieval on tasks, with a reservoir.

    One virtual step of the actual optimiser on the arriving tasks; of the candidates drawn from
    memory, those whose loss rises most are replayed.

    Parameters
    ----------
    candidates
        Stored batches that are scored at each step.

    References
    ----------
    Aljundi et al., Online continual learning with maximally interfered retrieval, 2019.
    """

    def __init__(
        self,
        learner: MetaLearner,
        optimizer: torch.optim.Optimizer,
        memory: Memory,
        config: ReplayConfig,
        rng: np.random.Generator,
        candidates: int = 16,
    ) -> None:
        super().__init__(learner, optimizer, memory, config, rng)
        self.candidates = candidates

    def step(self, tasks: TaskBatch) -> StepRecord:
        outcome = self.learn(tasks, self.interfered(tasks))
        return outcome.record(admitted=self.remember(self.arrival(tasks, outcome)))

    def interfered(self, tasks: TaskBatch) -> list[Replay]:
        """The b candidates whose loss rises most by a virtual step."""
        slots = candidates(self.memory, self.candidates, self.rng)
        if not slots:
            return []
        stored = self.memory.buffer.get(slots).to(self.device)
        with frozen_statistics(self.learner):
            before = self.losses(stored)
            undo = self.virtual_step(tasks)
            after = self.losses(stored)
            undo()
        chosen = most_interfered(slots, (after - before).tolist(), self.config.batches)
        replays = gather(self.memory, chosen, [1.0] * len(chosen))
        return [self.transform(replay, self.rng) for replay in replays]

    @torch.no_grad()
    def losses(self, stored: TaskBatch) -> Tensor:
        """The mean loss of each stored batch, [number of batches]."""
        loss: Tensor = self.learner(stored).loss
        return loss.view(-1, self.memory.buffer.tasks).mean(1)

    def virtual_step(self, tasks: TaskBatch) -> Callable[[], None]:
        """Step on the arriving tasks; gives the function that takes it back, bit for bit."""
        weights = [p.detach().clone() for p in self.parameters()]
        moments = optimizer_state(self.optimizer)
        loss = self.learner(tasks.to(self.device)).loss.mean()
        self.apply(loss)

        def undo() -> None:
            with torch.no_grad():
                for p, saved in zip(self.parameters(), weights, strict=True):
                    p.copy_(saved)
            load_optimizer_state(self.optimizer, moments)

        return undo
