"""Vectors and arrays to classify: from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind
from metadrift.live.pictures import Asked, Labelled

Support = Mapping[str, Any]
"""The examples of each class by its name: an array [n, *example] or one [*example]."""
Queries = Any
"""An array [m, *example] or one [*example]."""
ONE = "row"


def read_support(support: Support, kind: ExampleKind) -> Labelled:
    """The examples of at least two classes."""
    if not isinstance(support, Mapping):
        raise UsageError(
            f"the support of {kind} is a mapping from class names to arrays, not {support!r}"
        )
    blocks = [_examples(rows, kind, f"class {name!r}") for name, rows in support.items()]
    if len(blocks) < 2:
        raise MetadriftError(f"there are {len(blocks)} classes; the support needs at least 2")
    labels = torch.arange(len(blocks)).repeat_interleave(torch.tensor([len(b) for b in blocks]))
    return Labelled(list(support), torch.cat(blocks), labels)


def read_queries(queries: Queries, classes: Sequence[str], kind: ExampleKind) -> Asked:
    """All queries, by the number of their row."""
    rows = _examples(queries, kind, "the query")
    return Asked([f"row {i}" for i in range(len(rows))], rows, [None] * len(rows), [])


def _examples(rows: Any, kind: ExampleKind, where: str) -> Tensor:
    """[n, *example] of the kind's type."""
    try:
        array = np.asarray(rows)
    except ValueError:  # rows of different lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "fiu":
        raise UsageError(f"{where} must be an array of numbers, {kind}")
    if array.shape == kind.shape:
        array = array[None]
    if array.shape[1:] != kind.shape or len(array) == 0:
        raise UsageError(
            f"{where} has the shape {list(array.shape)}; the learner knows {kind}, so it must be "
            f"[n, {', '.join(map(str, kind.shape))}]"
        )
    if not np.isfinite(array).all():
        raise MetadriftError(f"{where} holds a number that is NaN or infinite")
    return torch.from_numpy(np.ascontiguousarray(array.astype(kind.dtype)))
