"""Several copies of a learner, one per latent domain: each task goes to the one it looks like."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from metadrift.detection.features import frozen_features
from metadrift.distributed.group import Group
from metadrift.examples import ExampleKind, kind_of_table
from metadrift.learners import MetaLearner
from metadrift.learners.base import Precision
from metadrift.methods.average import copied_weights

Floats = NDArray[np.float64]


class Specialists(MetaLearner):
    """A learner for evaluation and predictions, made of copies of one learner.

    The copy for a task is chosen by its support examples alone, so nothing names the domain.

    Parameters
    ----------
    general
        The learner that the copies were made from.
    copies
        From a latent domain's label to its copy.
    router
        Chooses the label for a task.
    """

    def __init__(
        self, general: MetaLearner, copies: Mapping[int, MetaLearner], router: NearestDomain
    ) -> None:
        nn.Module.__init__(self)  # it has no network of its own
        self.general = general
        self.backbone = general.backbone  # for what needs a single network
        self.example, self.normalisation = general.example, general.normalisation
        self.copies = nn.ModuleDict({str(label): one for label, one in copies.items()})
        self.router = router
        self.register_buffer("like", general.like.clone(), persistent=False)

    @property
    def precision(self) -> Precision:
        return self.general.precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        for learner in (self.general, *self.each()):
            learner.precision = precision

    def each(self) -> list[MetaLearner]:
        """The copies, in the order of their labels."""
        return [self.of(int(label)) for label in self.copies]

    def of(self, label: int) -> MetaLearner:
        """The copy of a latent domain."""
        return cast(MetaLearner, self.copies[str(label)])

    def logits(self, support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
        return self.general.logits(support, labels, query, ways)

    def answer(
        self, support: Tensor, labels: Tensor, query: Tensor, ways: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        chosen = self.router(support)
        if len(set(chosen)) == 1:  # always so if the tasks share their support
            return self.of(chosen[0]).answer(support, labels, query, ways)
        answers, order = [], []
        for label in sorted(set(chosen)):
            mine = [task for task, its in enumerate(chosen) if its == label]
            answers.append(self.of(label).answer(support[mine], labels, query[mine], ways))
            order += mine
        back = np.argsort(order)
        logits, known, asked = (torch.cat(parts)[back] for parts in zip(*answers, strict=True))
        return logits, known, asked

    def saved(self) -> dict[str, Any]:
        """The copies' weights and the router, for a checkpoint."""
        weights = {label: copied_weights(one) for label, one in self.copies.items()}
        return {"copies": weights, "router": self.router.state_dict()}

    @classmethod
    def restored(cls, general: MetaLearner, saved: Mapping[str, Any]) -> Self:
        """Those of a checkpoint, from the general learner."""
        try:
            router = NearestDomain.restored(saved["router"])
            copies = {label: copy.deepcopy(general) for label in router.labels}
            for label, one in copies.items():
                one.load_state_dict(saved["copies"][str(label)])
        except (TypeError, ValueError) as error:
            raise RuntimeError(f"its specialists are damaged: {error}") from None
        return cls(general, copies, router)


class NearestDomain:
    """The latent domain that a task's support examples look most like.

    Linear discriminant analysis on frozen features: the nearest mean, by the covariance of tasks
    within a domain. Few tasks say little about it, so its diagonal counts as much as D tasks.

    Parameters
    ----------
    kind
        What the examples are.
    labels, means
        The domains, and the mean vector of each: [L, D].
    inverse
        Of the covariance: [D, D].

    Examples
    --------
    >>> from metadrift.examples import Arrays
    >>> router = NearestDomain(Arrays((1,)), [3, 5], np.array([[0.0], [1.0]]), np.eye(1))
    >>> router(torch.tensor([0.2, 0.9]).reshape(2, 1, 1))  # two tasks of one support example
    [3, 5]
    """

    def __init__(
        self, kind: ExampleKind, labels: Sequence[int], means: Floats, inverse: Floats
    ) -> None:
        self.kind, self.features = kind, frozen_features(kind)
        self.labels, self.means, self.inverse = list(labels), means, inverse

    @classmethod
    def fitted(cls, kind: ExampleKind, vectors: Mapping[int, Floats], group: Group) -> Self:
        """From the frozen features of each domain's tasks [n, D]; a process has its tasks."""
        means = group.mean([every.mean(0) for every in vectors.values()])
        pairs = zip(vectors.values(), means, strict=True)
        apart = np.concatenate([every - mean for every, mean in pairs])
        n, D = len(apart) * group.size, apart.shape[1]
        within = group.mean(apart.T @ apart / len(apart))
        diagonal = np.diag(within) + 1e-6 * max(np.trace(within) / D, 1e-12)
        covariance = (n * within + D * np.diag(diagonal)) / (n + D)
        return cls(kind, list(vectors), means, np.linalg.inv(covariance))

    def __call__(self, support: Tensor) -> list[int]:
        """The label for each of these tasks, whose support examples are [T, n, *example]."""
        if len(self.labels) == 1:
            return self.labels * len(support)
        vectors = np.stack([self.features.of(one) for one in support])
        apart = vectors[:, None] - self.means
        distances = np.einsum("tld,de,tle->tl", apart, self.inverse, apart)
        return [self.labels[place] for place in distances.argmin(1)]

    def state_dict(self) -> dict[str, Any]:
        labels = np.array(self.labels, np.int64)
        numbers = {"labels": labels, "means": self.means, "inverse": self.inverse}
        return numbers | {"examples": self.kind.as_table()}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        labels = np.asarray(state["labels"], np.int64).reshape(-1).tolist()
        means, inverse = (np.array(state[name], np.float64) for name in ("means", "inverse"))
        if means.ndim != 2 or len(means) != len(labels) or inverse.shape != 2 * means.shape[1:]:
            raise ValueError("the router has numbers of the wrong shapes")
        return cls(kind_of_table(state["examples"]), labels, means, inverse)
