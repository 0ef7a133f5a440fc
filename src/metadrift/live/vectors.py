"""Vectors and arrays to classify: from files and from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from metadrift.data.example_files import Columns, read_blocks
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind, FloatType
from metadrift.live.pictures import Asked, Labelled

Support = str | Path | Mapping[str, Any]
"""A file with labels, or the examples of each class by its name: [n, *example] or [*example]."""
Queries = Any
"""A file or several, or an array [m, *example] or one [*example]."""
ONE = "row"


def read_support(support: Support, kind: ExampleKind) -> Labelled:
    """The examples of at least two classes."""
    if isinstance(support, str | Path):
        rows, names = _file(Path(support), kind, labelled=True)
        by_class: dict[str, Any] = {name: [] for name in names}
        for row, name in zip(rows, names, strict=True):
            by_class[name].append(row)
        support = {name: np.stack(of_class) for name, of_class in by_class.items()}
    if not isinstance(support, Mapping):
        raise UsageError(
            f"the support of {kind} is a file or a mapping from class names to arrays, not "
            f"{type(support).__name__}"
        )
    blocks = [_examples(rows, kind, f"class {name!r}") for name, rows in support.items()]
    if len(blocks) < 2:
        raise MetadriftError(f"there are {len(blocks)} classes; the support needs at least 2")
    labels = torch.arange(len(blocks)).repeat_interleave(torch.tensor([len(b) for b in blocks]))
    return Labelled(list(support), torch.cat(blocks), labels)


def read_queries(queries: Queries, classes: Sequence[str], kind: ExampleKind) -> Asked:
    """All queries, by the number of their row; a class that a file says is their truth."""
    files = [queries] if isinstance(queries, str | Path) else queries
    if not isinstance(files, list | tuple) or not all(isinstance(f, str | Path) for f in files):
        rows = _examples(queries, kind, "the query")
        return Asked([f"row {i}" for i in range(len(rows))], rows, [None] * len(rows), [])
    names: list[str] = []
    truth: list[str | None] = []
    found = []
    for file in files:
        block, labels = _file(Path(file), kind, labelled=False)
        where = "" if len(files) == 1 else f"{Path(file).name} "
        names += [f"{where}row {i}" for i in range(len(block))]
        truth += [one if one in classes else None for one in labels or [""] * len(block)]
        found.append(_examples(block, kind, str(file)))
    return Asked(names, torch.cat(found), truth, [])


def _file(path: Path, kind: ExampleKind, labelled: bool) -> tuple[np.ndarray, list[str]]:
    blocks = list(read_blocks(path, Columns(), cast(FloatType, kind.dtype), labelled))
    rows = np.concatenate([block.examples for block in blocks])
    return rows, [name for block in blocks for name in block.labels or ()]


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
    with np.errstate(over="ignore"):
        made = array.astype(kind.dtype)
    if not np.isfinite(made).all():
        raise MetadriftError(f"{where} holds a number that is not finite in {kind.dtype}")
    return torch.from_numpy(np.ascontiguousarray(made))
