"""GSS-Greedy: keep batches whose gradients point in different directions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from metadrift.learners import MetaLearner
from metadrift.memory import GradientSketch, GSSMemory
from metadrift.methods.base import StepOutcome, StepRecord
from metadrift.methods.config import ReplayConfig
from metadrift.methods.replaying import ReplayingMethod
from metadrift.tasks import TaskBatch


class GSS(ReplayingMethod):
    """Gradient-based sample selection on tasks, uniform replay.

    The gradient of the arriving batch is a by-product of training: arriving and replayed tasks go
    through the learner one after the other, and the second backward adds to the first.

    Parameters
    ----------
    memory
        A GSSMemory, which decides by cosine to stored gradients.
    sketch
        The random projection in which gradients are kept.

    References
    ----------
    Aljundi et al., Gradient based sample selection for online continual learning, 2019.
    """

    def __init__(
        self,
        learner: MetaLearner,
        optimizer: torch.optim.Optimizer,
        memory: GSSMemory,
        config: ReplayConfig,
        rng: np.random.Generator,
        sketch: GradientSketch,
    ) -> None:
        super().__init__(learner, optimizer, memory, config, rng)
        self.sketch = sketch

    def step(self, tasks: TaskBatch) -> StepRecord:
        replays = self.draw()
        learned = self.forward(tasks)
        self.optimizer.zero_grad(set_to_none=True)
        self.backward(learned.objective)
        gradient = torch.cat([p.grad.flatten() for p in self.parameters() if p.grad is not None])
        if replays:
            stored = TaskBatch.concatenate([replay.tasks for replay in replays])
            replayed = self.learner(stored.to(self.device))
            self.backward(self.replay_term(replayed, replays))
            learned = replace(learned, replay_loss=replayed.loss.mean().item())
        self.take_step()
        return learned.record(admitted=self.admit(tasks, learned, gradient))

    def admit(self, tasks: TaskBatch, learned: StepOutcome, gradient: torch.Tensor) -> bool:
        with self.clock("memory"):
            assert isinstance(self.memory, GSSMemory)
            sketch = self.sketch(gradient)
            return self.memory.offer(tasks, 0, learned.importance, sketch=sketch) is not None
