"""What every method has in common: a learner, an optimiser, and one guarded training step."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from metadrift.detection import Change
from metadrift.distributed.group import Group
from metadrift.errors import MetadriftError
from metadrift.learners import MetaLearner, Outcome
from metadrift.replay import FreshTasks
from metadrift.tasks import TaskBatch


class NonFiniteError(MetadriftError):
    """The loss or a gradient is NaN or infinite; the weights have not been touched."""


@dataclass(frozen=True)
class StepRecord:
    """What one training step reports.

    Parameters
    ----------
    loss, accuracy
        Means over the arriving tasks, before the step.
    replay_loss
        Mean over the replayed tasks; NaN when nothing was replayed.
    latent_domain
        How many changes were noticed so far.
    change
        The change that was noticed at this step.
    admitted
        True if memory took the arriving batch.
    extra
        The method's own numbers by name. They go into metrics.jsonl beside the others.
    """

    loss: float
    accuracy: float
    replay_loss: float = math.nan
    latent_domain: int = 0
    change: Change | None = None
    admitted: bool = False
    extra: dict[str, float] = field(default_factory=dict)


class Stopwatch:
    """Seconds spent in each part of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[part] = self.seconds.get(part, 0.0) + spent


class Method(ABC):
    """One way to learn from a stream.

    Parameters
    ----------
    learner
        Any meta-learner, already on its device.
    optimizer
        The optimiser of its parameters.

    Attributes
    ----------
    group
        The processes that train together, each on its share of the tasks; this one alone at first.
    fresh_tasks
        How tasks are transformed before they are trained on; not at all at first.
    """

    def __init__(self, learner: MetaLearner, optimizer: torch.optim.Optimizer) -> None:
        self.learner = learner
        self.optimizer = optimizer
        self.clock = Stopwatch()
        self.group = Group()
        self.fresh_tasks = FreshTasks()
        self.device = next(learner.parameters()).device

    @abstractmethod
    def step(self, tasks: TaskBatch) -> StepRecord:
        """The whole of one training step on the arriving tasks."""

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.learner.parameters())

    def state_dict(self) -> dict[str, Any]:
        return {
            "learner": {k: v.detach().clone() for k, v in self.learner.state_dict().items()},
            "optimizer": optimizer_state(self.optimizer),
            "fresh_tasks": self.fresh_tasks.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state["learner"])
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.fresh_tasks.load_state_dict(state["fresh_tasks"])

    def fresh(self, tasks: TaskBatch) -> TaskBatch:
        """The arriving tasks in the form in which the learner is trained on them."""
        with self.clock("fresh"):
            return self.fresh_tasks.arriving(tasks, self.group.rank)

    def forward(self, tasks: TaskBatch) -> StepOutcome:
        """The objective of the arriving tasks alone: their mean loss."""
        arriving = self.learner(tasks.to(self.device))
        return self.step_outcome(arriving, None, arriving.loss.mean())

    def step_outcome(
        self, arriving: Outcome, replayed: Outcome | None, objective: Tensor
    ) -> StepOutcome:
        """A forward pass with its means over the tasks of all processes; NaN stops here."""
        means = [arriving.loss.mean(), arriving.accuracy().mean(), mean_squares(arriving).mean()]
        if replayed is not None:
            means.append(replayed.loss.mean())
        # The objective goes first: what is not finite in one process is refused in all.
        numbers = self.group.mean([m.item() for m in (objective, *means)]).tolist()
        total, loss, accuracy, square, *replay_loss = numbers
        refuse_non_finite(total, "the loss")
        return StepOutcome(
            arriving, replayed, objective, loss, accuracy, math.sqrt(square), *replay_loss
        )

    def apply(self, objective: Tensor) -> None:
        """Backward and optimiser step."""
        refuse_non_finite(objective, "the loss")
        self.optimizer.zero_grad(set_to_none=True)
        objective.backward()  # type: ignore[no-untyped-call]
        self.take_step()

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """The gradient of a loss in all parameters, which are left alone; NaN stops here."""
        refuse_non_finite(loss, "the loss")
        gradients = torch.autograd.grad(loss, self.parameters())
        refuse_non_finite(torch.nn.utils.get_total_norm(gradients), "a gradient")
        return list(gradients)

    def descend(self, gradient: list[Tensor]) -> None:
        """Optimiser step on this gradient."""
        for parameter, part in zip(self.parameters(), gradient, strict=True):
            parameter.grad = part
        self.take_step()

    def take_step(self) -> None:
        """Optimiser step on the gradients that are there, if all are finite."""
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        averages = [b for b in self.learner.buffers() if b.is_floating_point()]
        self.group.mean_([*gradients, *averages])
        refuse_non_finite(torch.nn.utils.get_total_norm(gradients), "a gradient")
        self.optimizer.step()


@dataclass(frozen=True)
class StepOutcome:
    """One training forward pass: arriving and replayed tasks apart, and the objective.

    `arriving`, `replayed` and `objective` cover this process's tasks. The numbers are means over
    the tasks of all processes; `importance` is the root mean square.
    """

    arriving: Outcome
    replayed: Outcome | None
    objective: Tensor
    loss: float
    accuracy: float
    importance: float
    replay_loss: float = math.nan

    def record(self, **more: Any) -> StepRecord:
        """The record of this step, with whatever else the method knows."""
        return StepRecord(
            loss=self.loss, accuracy=self.accuracy, replay_loss=self.replay_loss, **more
        )


def mean_squares(outcome: Outcome, batches: int = 1) -> Tensor:
    """Of each batch, the mean over its tasks of their squared importance: [batches].

    Its root is the importance of a batch, wherever one is measured. Squares, because the variance
    that PETS lowers adds up from squared gradient norms.
    """
    return outcome.importance.view(batches, -1).square().mean(1)


def refuse_non_finite(value: Tensor | float, what: str) -> None:
    """Raise when `value` (a scalar) is NaN or infinite."""
    number = value.item() if isinstance(value, Tensor) else value
    if not math.isfinite(number):
        raise NonFiniteError(f"{what} became {number:g}")


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """An optimiser's state with text keys and without aliases, as checkpoints want it."""
    state = optimizer.state_dict()
    return {
        "state": {
            str(index): {
                key: value.clone() if isinstance(value, Tensor) else value
                for key, value in entry.items()
            }
            for index, entry in state["state"].items()
        },
        "lr": [group["lr"] for group in state["param_groups"]],
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    groups = optimizer.state_dict()["param_groups"]
    for group, lr in zip(groups, saved["lr"], strict=True):
        group["lr"] = lr
    entries = {int(index): entry for index, entry in saved["state"].items()}
    optimizer.load_state_dict({"state": entries, "param_groups": groups})
