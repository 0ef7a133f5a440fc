"""The base class of all meta-learners: from examples to features, each task on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from metadrift.errors import UsageError
from metadrift.examples import ExampleKind, as_kind
from metadrift.learners.normalisation import Normalisation, keep_tasks_apart, task_norms
from metadrift.learners.outcome import Outcome
from metadrift.learners.wider import circle, with_other_classes
from metadrift.tasks import TaskBatch

Precision = Literal["float32", "bf16"]


class MetaLearner(nn.Module):
    """Learns from T tasks at once, each on its own: `learner(tasks)` returns an Outcome.

    A learner writes its rule once, in `logits`. Training, evaluation and `classify` all use it.

    Parameters
    ----------
    backbone
        Any module that maps [B, 3, H, W] (of other examples than pictures: [B, *example]) to
        [B, D]. It is copied, and its BatchNorm layers are replaced by ones that keep tasks apart.
    example
        What the examples are; a number stands for pictures of that size.
    normalisation
        `batch` or `running`, see TaskNorm.

    Attributes
    ----------
    precision
        `float32`, or `bf16` for activations in bfloat16. You may change it at any time. Weights,
        statistics, features and losses are float32 in both.
    """

    precision: Precision = "float32"
    most_blocks: ClassVar[int] = 4
    """The depth of the built-in backbone for large images."""
    usual_filters: ClassVar[int] = 64
    """The width of the built-in backbone."""
    has_head: ClassVar[bool] = False
    """True if the head has fixed ways. The learner then also takes `ways` and `generator`."""
    Options: ClassVar[type | None] = None
    """A dataclass of a plug-in's own settings. The learner then takes `options=`."""

    like: Tensor
    """No numbers, but the type and the device of the weights, which a learner need not have."""

    def __init__(
        self, backbone: nn.Module, example: ExampleKind | int, normalisation: Normalisation
    ) -> None:
        super().__init__()
        self.example = as_kind(example)
        self.normalisation = normalisation
        self.backbone = keep_tasks_apart(backbone, normalisation)
        self.register_buffer("like", torch.empty(0), persistent=False)

    def logits(self, support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
        """The rule: features of support [T, n, D] and query [T, m, D] to logits [T, m, ways].

        `labels` (int64 [n], 0 to ways - 1) is the class of each support row, the same in every
        task. Classes may have different numbers of rows, and must still have the same weight.
        `class_means` and `class_shares` do that.
        """
        raise NotImplementedError(
            f"{type(self).__name__} needs a method logits(support, labels, query, ways)"
        )

    def answer(
        self, support: Tensor, labels: Tensor, query: Tensor, ways: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [T, m, ways], and the features of support and query they were computed from.

        `support` is [T, n, *example], or [1, n, *example] for T tasks that share it; `query` is
        [T, m, *example]. A learner whose whole network adapts overrides this.
        """
        n = len(labels)
        features = self.features(support.expand(len(query), *support.shape[1:]), query)
        known, asked = features[:, :n], features[:, n:]
        return self.logits(known, labels, asked, ways), known, asked

    def forward(self, tasks: TaskBatch, groups: Sequence[int] | None = None) -> Outcome:
        """Loss, logits, embedding and importance of every task.

        With `groups`, one number per task, a query also competes with the classes of the other
        tasks that have the same number.
        """
        labels, ways = tasks.support_labels, tasks.geometry.ways
        if groups is None or len(set(groups)) == len(groups):
            return Outcome.of(*self.answer(tasks.support, labels, tasks.query, ways))
        features = self.features(tasks.support, tasks.query)
        known, asked = features[:, : len(labels)], features[:, len(labels) :]
        return Outcome.of(self.wider(tasks, known, asked, groups), known, asked, ways)

    def wider(
        self, tasks: TaskBatch, known: Tensor, asked: Tensor, groups: Sequence[int]
    ) -> Tensor:
        """Logits [T, m, T*ways], a task's own classes first; -inf for those of other groups."""
        labels, ways = tasks.support_labels, tasks.geometry.ways
        order, near = circle(torch.tensor(groups).to(known.device, non_blocking=True))
        every = with_other_classes(known, labels, ways, order, near)
        logits = self.logits(*every, asked, ways * len(tasks))
        return logits.masked_fill(~near.repeat_interleave(ways, 1)[:, None], -torch.inf)

    def predict(
        self, support: Tensor, labels: Tensor, query: Tensor, *, ways: int | None = None
    ) -> Tensor:
        """Logits [T, m, ways] in evaluation mode and without gradient.

        Takes any number of classes and of support examples per class, as described at `answer`.
        By default `ways` is one more than the largest label.
        """
        with evaluating(self):
            return self.answer(support, labels, query, ways or int(labels.max()) + 1)[0]

    @property
    def transductive(self) -> bool:
        """True if a prediction depends on the other queries of its task, through statistics."""
        return self.normalisation == "batch" and bool(task_norms(self.backbone))

    def inputs(self, *examples: Tensor) -> Tensor:
        """[T, N, *example] to what the network reads: [T*N, 3, H, W] of pictures, in [-1, 1].

        Several tensors are joined along N.
        """
        return self.example.to_network(*examples, like=self.like)

    def features(self, *examples: Tensor) -> Tensor:
        """[T, N, *example] to [T, N, D], each task with its own normalisation."""
        T = len(examples[0])
        for norm in task_norms(self.backbone):
            norm.tasks = T
        with self.mixed():
            rows: Tensor = self.backbone(self.inputs(*examples))
        return with_gradient(self.full(rows).reshape(T, len(rows) // T, -1))

    def mixed(self) -> AbstractContextManager[object]:
        """Within this context a learner with precision `bf16` computes in bfloat16."""
        device, bf16 = self.like.device.type, self.precision == "bf16"
        if not bf16 and not torch.amp.is_autocast_available(device):
            return nullcontext()  # the device has no other precision
        return torch.autocast(device, torch.bfloat16, enabled=bf16)

    def full(self, features: Tensor) -> Tensor:
        """Features in the type of the weights: nothing after the network is bfloat16."""
        return features.to(self.like.dtype)

    def feature_size(self) -> int:
        """D, found by sending two blank examples through the backbone."""
        blank = self.example.blank(1, 2).to(self.like.device)
        with torch.no_grad():
            return int(self.features(blank).shape[2])


@contextmanager
def evaluating(learner: nn.Module) -> Iterator[None]:
    """Within this context the learner is in evaluation mode and keeps no gradient."""
    was_training = learner.training
    learner.eval()
    try:
        # Not inference_mode: the inner loop of maml needs gradients.
        with torch.no_grad():
            yield
    finally:
        learner.train(was_training)


def with_gradient(features: Tensor) -> Tensor:
    """Give the features of a frozen backbone a gradient too: the importance is computed from it."""
    if torch.is_grad_enabled() and not features.requires_grad:
        features.requires_grad_()
    return features


def pick_device(name: str = "auto") -> torch.device:
    """`auto` takes an accelerator if there is one. `cpu`, `cuda` and `mps` must exist.

    Examples
    --------
    >>> pick_device("cpu")
    device(type='cpu')
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(device for device, found in there.items() if found))
    if name not in there:
        raise UsageError(f"device must be auto, cpu, cuda or mps, not {name!r}")
    if not there[name]:
        raise UsageError(f"there is no {name} device here; use --device auto or cpu")
    return torch.device(name)
