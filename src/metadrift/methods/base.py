"""The base class of all methods: a learner, an optimiser, and one guarded training step."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from metadrift import registry
from metadrift.detection import Change, Move
from metadrift.distributed.group import Group
from metadrift.errors import MetadriftError
from metadrift.learners import MetaLearner, Outcome
from metadrift.methods.average import WeightAverage, copied_weights
from metadrift.methods.optimisation import Schedule, load_optimizer_state, optimizer_state
from metadrift.methods.parts import MethodParts
from metadrift.replay import FreshTasks, put_together
from metadrift.tasks import TaskBatch


class NonFiniteError(MetadriftError):
    """The loss or a gradient is NaN or infinite. The weights are unchanged."""


@dataclass(frozen=True)
class StepRecord:
    """The report of one training step.

    Parameters
    ----------
    loss, accuracy
        Means over the arriving tasks, before the step.
    replay_loss
        Mean over the replayed tasks; NaN when nothing was replayed.
    latent_domain
        The label of the latent domain that tasks arrive from.
    change
        The change detected at this step, if any.
    moves
        What became known at this step: since when batches belong to which latent domain.
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
    moves: tuple[Move, ...] = ()
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
        The processes that train together, each on its share of the tasks. Default: one process.
    fresh_tasks
        The transforms of tasks before training. Default: none.
    clip
        The largest norm of a gradient. A longer one is scaled down to it. Default: infinite.
    schedule
        The learning-rate schedule. Default: none.
    average
        The moving average of the weights for evaluation. Default: none.
    tasks_together
        The number of tasks to combine into one wider task in training. Default: 1.
    """

    many_processes: ClassVar[bool] = True
    """True if several processes can run it. They exchange only means, through `self.group`."""
    detects: ClassVar[bool] = False
    """True if it needs features and a change detector."""
    Options: ClassVar[type | None] = None
    """A dataclass of the method's own settings (`--options.NAME`); `self.options` holds them."""
    options: Any = None

    def __init__(self, learner: MetaLearner, optimizer: torch.optim.Optimizer) -> None:
        self.learner = learner
        self.optimizer = optimizer
        self.clock = Stopwatch()
        self.group = Group()
        self.fresh_tasks = FreshTasks()
        self.clip = math.inf
        self.schedule: Schedule | None = None
        self.tasks_together = 1
        self.average: WeightAverage | None = None
        self.device = next(learner.parameters()).device

    @classmethod
    def make(cls, parts: MethodParts) -> Self:
        """The method from the parts of a run."""
        return registry.call(cls, parts.learner, parts.optimizer)

    @abstractmethod
    def step(self, tasks: TaskBatch) -> StepRecord:
        """The whole of one training step on the arriving tasks."""

    def after_step(self) -> None:
        """Update schedule and average. The caller of `step` calls this after a good step."""
        if self.schedule is not None:
            self.schedule.step()
        if self.average is not None:
            self.average.update(self.learner)

    @property
    def evaluated(self) -> MetaLearner:
        """The learner for evaluation and predictions, with averaged weights if there are any."""
        return self.learner if self.average is None else self.average.learner

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.learner.parameters())

    def state_dict(self) -> dict[str, Any]:
        state = {
            "learner": copied_weights(self.learner),
            "optimizer": optimizer_state(self.optimizer),
            "fresh_tasks": self.fresh_tasks.state_dict(),
        }
        parts = {"schedule": self.schedule, "average": self.average}
        return state | {name: part.state_dict() for name, part in parts.items() if part is not None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state["learner"])
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.fresh_tasks.load_state_dict(state["fresh_tasks"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])

    def fresh(self, tasks: TaskBatch) -> TaskBatch:
        """The arriving tasks, transformed for training."""
        with self.clock("fresh"):
            return self.fresh_tasks.arriving(tasks, self.group.rank)

    def forward(self, tasks: TaskBatch) -> StepOutcome:
        """The objective of the arriving tasks alone: their mean loss."""
        arriving = self.outcome(tasks, [0] * len(tasks))
        return StepOutcome(arriving, arriving.loss.mean())

    def outcome(self, tasks: TaskBatch, owners: Sequence[int]) -> Outcome:
        """The learner's outcome on these tasks in one training forward pass.

        Tasks with the same owner, a number per task, may be combined into wider tasks.
        """
        groups = put_together(owners, self.tasks_together)
        given = tasks.to(self.device)
        outcome: Outcome = self.learner(given, groups) if groups else self.learner(given)
        return outcome

    def apply(self, outcome: StepOutcome) -> StepOutcome:
        """Backward pass and optimiser step. Returns the outcome with its numbers."""
        self.backward(outcome.objective)
        return self.take_step(outcome)

    def descend(self, outcome: StepOutcome, gradient: list[Tensor], *more: Tensor) -> StepOutcome:
        """Optimiser step on this gradient. Returns the outcome with its numbers and `more`."""
        for parameter, part in zip(self.parameters(), gradient, strict=True):
            parameter.grad = part
        return self.take_step(outcome, *more)

    def take_step(self, outcome: StepOutcome, *more: Tensor) -> StepOutcome:
        """Optimiser step on the stored gradients, if they and all numbers are finite."""
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        averages = [b for b in self.learner.buffers() if b.is_floating_point()]
        self.group.mean_([*gradients, *averages])
        norm = torch.nn.utils.get_total_norm(gradients)
        outcome = self.read(outcome, norm, *more)
        self.move(norm)
        return outcome

    def read(self, outcome: StepOutcome, norm: Tensor, *more: Tensor) -> StepOutcome:
        """The outcome with its numbers. Raises on NaN, before it reaches the weights.

        All numbers of a step come from the device in one transfer, because each transfer waits for
        all work on the device.

        Parameters
        ----------
        norm
            The norm of the gradient.
        more
            Other scalars that the method needs as numbers, or that must be finite.
        """
        arriving, replayed, batches = outcome.arriving, outcome.replayed, outcome.batches
        means = [outcome.objective, arriving.loss.mean(), arriving.accuracy().mean()]
        means += [mean_squares(arriving).mean()]
        squares = norm.new_empty(0)
        if replayed is not None:
            means.append(replayed.loss.mean())
            squares = mean_squares(replayed, batches)
        scalars = [part.detach().to(norm.dtype) for part in (*means, norm, *more)]
        numbers = torch.cat([torch.stack(scalars), squares]).cpu().tolist()
        # A number that is not finite in one process stops the step in all.
        shared = self.group.mean(numbers[: len(means)]).tolist()
        total, loss, accuracy, square, *replay_loss = shared
        others, each = numbers[len(means) : len(scalars)], numbers[len(scalars) :]
        refuse_non_finite(total, "the loss")
        for number in others:
            refuse_non_finite(number, "a gradient")
        return replace(
            outcome,
            loss=loss,
            accuracy=accuracy,
            importance=math.sqrt(square),
            replay_loss=replay_loss[0] if replay_loss else math.nan,
            squares=tuple(each),
            more=tuple(others[1:]),
        )

    def backward(self, objective: Tensor) -> None:
        """The gradient of the objective, into the parameters."""
        self.optimizer.zero_grad(set_to_none=True)
        objective.backward()  # type: ignore[no-untyped-call]

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """The gradient of a loss in all parameters. Does not change `.grad`."""
        return list(torch.autograd.grad(loss, self.parameters()))

    def move(self, norm: Tensor) -> None:
        """Optimiser step on the stored gradients, which have this norm."""
        if self.clip < math.inf:
            torch.nn.utils.clip_grads_with_norm_(self.parameters(), self.clip, norm)
        self.optimizer.step()


@dataclass(frozen=True)
class StepOutcome:
    """One training forward pass: arriving tasks, replayed tasks, and the objective.

    `arriving`, `replayed` (of `batches` batches) and `objective` cover this process's tasks. The
    numbers exist once the step is taken. They are means over the tasks of all processes;
    `importance` is a root mean square. `squares` are the mean squared importances of this
    process's replayed batches. `more` holds the numbers that the method asked for.
    """

    arriving: Outcome
    objective: Tensor
    replayed: Outcome | None = None
    batches: int = 0
    loss: float = math.nan
    accuracy: float = math.nan
    importance: float = math.nan
    replay_loss: float = math.nan
    squares: tuple[float, ...] = ()
    more: tuple[float, ...] = ()

    def record(self, **more: Any) -> StepRecord:
        """The record of this step, with more fields from the method."""
        return StepRecord(
            loss=self.loss, accuracy=self.accuracy, replay_loss=self.replay_loss, **more
        )


def mean_squares(outcome: Outcome, batches: int = 1) -> Tensor:
    """For each batch, the mean over its tasks of their squared importance: [batches].

    Its root is the importance of a batch, everywhere. Squares, because the variance that PETS
    lowers is a sum of squared gradient norms.
    """
    return outcome.importance.view(batches, -1).square().mean(1)


def refuse_non_finite(number: float, what: str) -> None:
    """Raise when a number is NaN or infinite."""
    if not math.isfinite(number):
        raise NonFiniteError(f"{what} became {number:g}")
