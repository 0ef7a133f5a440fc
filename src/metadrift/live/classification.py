"""The classes that a learner predicts for new examples, and how they are printed."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from metadrift.data.importers.plan import Unreadable
from metadrift.examples import ExampleKind, Pictures
from metadrift.learners import MetaLearner
from metadrift.live import pictures, vectors
from metadrift.live.pictures import Asked, Labelled, Queries, Support

_EXAMPLES_PER_PASS = 1024


@dataclass(frozen=True)
class Classification:
    """The answer for every query.

    Parameters
    ----------
    classes
        Names, in the order of the columns of `probabilities`.
    shots
        Support examples of each class.
    pictures
        Names of the m queries.
    probabilities
        float64 [m, classes]; each row adds up to 1.
    truth
        The class of each query where its source says it.
    unreadable
        Files that were left out.
    one
        What a query is called in the output.

    Examples
    --------
    >>> found = Classification(["cat", "dog"], [1, 2], ["a.png"], np.array([[0.2, 0.8]]), ["dog"])
    >>> found.names, found.accuracy
    (['dog'], 1.0)
    """

    classes: list[str]
    shots: list[int]
    pictures: list[str]
    probabilities: NDArray[np.float64]
    truth: list[str | None]
    unreadable: tuple[Unreadable, ...] = ()
    one: str = "picture"

    @property
    def names(self) -> list[str]:
        """The likeliest class of each query."""
        return [self.classes[int(c)] for c in self.probabilities.argmax(1)]

    @property
    def accuracy(self) -> float | None:
        """The share of correct predictions among the queries whose class is known, if any is."""
        pairs = [(n, t) for n, t in zip(self.names, self.truth, strict=True) if t is not None]
        return sum(n == t for n, t in pairs) / len(pairs) if pairs else None

    def as_table(self) -> dict[str, Any]:
        """For JSON."""
        rows = zip(self.pictures, self.names, self.probabilities, self.truth, strict=True)
        return {
            "classes": self.classes,
            "shots": dict(zip(self.classes, self.shots, strict=True)),
            "accuracy": self.accuracy,
            "queries": [
                {
                    self.one: picture,
                    "class": name,
                    "probability": float(row.max()),
                    "truth": truth,
                    "probabilities": dict(zip(self.classes, row.tolist(), strict=True)),
                }
                for picture, name, row, truth in rows
            ],
            "unreadable": [{self.one: u.name, "reason": u.reason} for u in self.unreadable],
        }

    def as_csv(self) -> str:
        """One row per query, one column per class with its probability."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([self.one, "class", "probability", "truth", *self.classes])
        rows = zip(self.pictures, self.names, self.probabilities, self.truth, strict=True)
        for picture, name, row, truth in rows:
            each = [f"{p:.6f}" for p in row]
            writer.writerow([picture, name, f"{row.max():.6f}", truth or "", *each])
        return text.getvalue()

    def as_text(self) -> str:
        """As text: the two most likely classes."""
        wide = max(len(picture) for picture in self.pictures) + 2
        lines = []
        for picture, row, truth in zip(self.pictures, self.probabilities, self.truth, strict=True):
            first, second = np.argsort(-row, kind="stable")[:2]
            said = f"{self.classes[first]} {100 * row[first]:.0f}%"
            said += f", {self.classes[second]} {100 * row[second]:.0f}%"
            wrong = "" if truth in (None, self.classes[first]) else f"   (is {truth})"
            lines.append(f"{picture:<{wide}}{said}{wrong}")
        known = sum(t is not None for t in self.truth)
        if known:
            lines.append(f"accuracy: {100 * (self.accuracy or 0):.1f}% of {known} {self.one}s")
        return "\n".join(lines)


def classify(
    learner: MetaLearner,
    example: ExampleKind,
    support: Support | vectors.Support,
    query: Queries | vectors.Queries,
    *,
    together: bool = False,
) -> Classification:
    """Classify the queries by the classes of the support."""
    reader: Any = pictures if isinstance(example, Pictures) else vectors
    known: Labelled = reader.read_support(support, example)
    asked: Asked = reader.read_queries(query, known.classes, example)
    device = learner.like.device
    logits = logits_of(
        learner,
        known.examples.to(device),
        known.labels.to(device),
        asked.examples.to(device),
        together=together,
    )
    probabilities = torch.softmax(logits.double(), -1).cpu().numpy()
    shots = known.labels.bincount().tolist()
    return Classification(
        known.classes,
        shots,
        asked.names,
        probabilities,
        asked.truth,
        tuple(asked.unreadable),
        reader.ONE,
    )


def logits_of(
    learner: MetaLearner, support: Tensor, labels: Tensor, query: Tensor, *, together: bool = False
) -> Tensor:
    """Logits [m, ways] of the queries.

    Parameters
    ----------
    support, query
        [n, *example] and [m, *example], on the learner's device.
    labels
        int64 [n], from 0 to ways - 1, each at least once.
    together
        True: one task with all queries, as in training. False: a task for each query, so that no
        answer depends on the other queries. Without `batch` normalisation the two are the same.
    """
    if not learner.transductive:
        tasks = [part[None] for part in torch.split(query, _EXAMPLES_PER_PASS)]
    elif together:
        tasks = [query[None]]
    else:
        each = max(1, _EXAMPLES_PER_PASS // (len(support) + 1))
        tasks = list(torch.split(query.unsqueeze(1), each))
    return torch.cat([learner.predict(support[None], labels, q).flatten(0, 1) for q in tasks])
