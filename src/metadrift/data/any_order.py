"""Packs from examples that come in any order, and from torch datasets of any size."""

from __future__ import annotations

import itertools
import math
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.data.example_files import BLOCK_BYTES, Block
from metadrift.data.importers.splits import random_splits
from metadrift.data.pack import SPLITS, Pack, Split, open_pack, write_pack
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import FloatType, kind_of_stored


def pack_from_blocks(
    blocks: Iterable[Block],
    path: Path | str,
    *,
    name: str | None = None,
    splits: Mapping[str, Split] | None = None,
    per_class: int | None = None,
    source: str = "not stated",
    licence: str = "not stated",
    replace: bool = False,
) -> Pack:
    """Write a pack from blocks of labelled examples in any order.

    The examples first go to a temporary file beside the pack, so memory holds only a few megabytes
    of them. The split of a class comes from its rows, else from `splits`, else it is random as in
    `metadrift data import`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path.parent) as scratch:
        sorter = _Sorter(scratch, dict(splits or {}))
        for block in blocks:
            sorter.add(block)
        if len(sorter.codes) < 2:
            raise MetadriftError(
                f"there are {len(sorter.codes)} classes with examples; a pack needs at least 2"
            )
        write_pack(
            path,
            name or path.name,
            sorter.classes(per_class),
            source=source,
            licence=licence,
            replace=replace,
        )
    return open_pack(path)


def pack_from_dataset(
    dataset: Any,
    path: Path | str,
    *,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    splits: Mapping[str, Split] | None = None,
    dtype: FloatType = "float32",
    source: str = "not stated",
    licence: str = "not stated",
    replace: bool = False,
) -> Pack:
    """Write a pack from a torch Dataset (or any iterable) of (example, label) pairs.

    Parameters
    ----------
    dataset
        Its examples are floats of one shape, or pictures: images of Pillow, or uint8 [C, H, W],
        square and of one size. A label is a whole number or text.
    path
        The new pack's folder.
    name
        The pack's name, by default that of its folder.
    class_names
        The names of whole-number labels; by default `dataset.classes` where there is one.
    splits
        The split of each class by name, for those that should not be drawn at random.
    dtype
        float32, or float16 for half the space. Pictures stay uint8.
    source, licence
        Where the examples are from, for pack.json.
    replace
        Replace a pack that exists.

    Examples
    --------
    >>> pairs = [(np.full(4, c + i, np.float32), f"class {c}") for i in range(3) for c in range(2)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack = pack_from_dataset(pairs, f"{folder}/small")
    ...     print(len(pack.examples), pack.kind, sorted(pack.class_names))
    6 float32 vectors of 4 ['class 0', 'class 1']
    """
    if class_names is None:
        class_names = getattr(dataset, "classes", None)
    blocks = _blocks_of(_items(dataset), class_names, dtype)
    return pack_from_blocks(
        blocks, path, name=name, splits=splits, source=source, licence=licence, replace=replace
    )


class _Sorter:
    """Examples in a file, in the order of arrival, and the class of each."""

    def __init__(self, scratch: Any, splits: dict[str, Split]) -> None:
        self.scratch = scratch
        self.codes: dict[str, int] = {}
        self._of_row = array("q")
        self._splits = splits
        self._shape: tuple[int, ...] = ()
        self._dtype = np.dtype(np.float32)

    def add(self, block: Block) -> None:
        assert block.labels is not None
        kind = kind_of_stored(block.examples)
        if not self.codes:
            self._shape, self._dtype = kind.stored_shape, block.examples.dtype
        if (kind.stored_shape, block.examples.dtype) != (self._shape, self._dtype):
            raise MetadriftError(
                f"example {len(self._of_row)} is {block.examples.dtype} {list(kind.stored_shape)}, "
                f"the first is {self._dtype} {list(self._shape)}"
            )
        self.scratch.write(np.ascontiguousarray(block.examples).data)
        for row, label in enumerate(block.labels):
            self._of_row.append(self.codes.setdefault(label, len(self.codes)))
            if block.splits is not None:
                self._note(label, block.splits[row])

    def _note(self, label: str, split: str) -> None:
        split = "val" if split == "valid" else split
        if split not in SPLITS:
            raise MetadriftError(
                f"class {label!r} has the split {split!r}; it may be train, val or test"
            )
        if self._splits.setdefault(label, split) != split:
            raise MetadriftError(
                f"class {label!r} is in the splits {self._splits[label]} and {split}; a class "
                "belongs to one split"
            )

    def classes(self, per_class: int | None) -> Iterator[tuple[str, Split, Iterator[NDArray[Any]]]]:
        """Class after class, in the order of splits and names."""
        self.scratch.flush()
        rows = np.frombuffer(self._of_row, np.int64)
        shape = (len(rows), *self._shape)
        whole = np.memmap(self.scratch, self._dtype, "r", shape=shape)
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(np.bincount(rows, minlength=len(self.codes)))
        unknown = [name for name in self.codes if name not in self._splits]
        splits = random_splits(unknown) | self._splits
        for name in sorted(self.codes, key=lambda name: (SPLITS.index(splits[name]), name)):
            code = self.codes[name]
            mine = order[ends[code - 1] if code else 0 : ends[code]][:per_class]
            yield name, splits[name], _some_at_a_time(whole, mine)


def _some_at_a_time(whole: NDArray[Any], rows: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
    each = max(1, BLOCK_BYTES // (math.prod(whole.shape[1:]) * whole.dtype.itemsize))
    for start in range(0, len(rows), each):
        yield np.asarray(whole[rows[start : start + each]])


def _items(dataset: Any) -> Iterator[Any]:
    # A dataset by index need not stop by itself when it is iterated.
    indexed, sized = hasattr(dataset, "__getitem__"), hasattr(dataset, "__len__")
    if isinstance(dataset, Mapping) or not (indexed or hasattr(dataset, "__iter__")):
        raise UsageError(
            "a dataset is a torch Dataset or an iterable of (example, label) pairs, not "
            f"{type(dataset).__name__}"
        )
    return (dataset[i] for i in range(len(dataset))) if indexed and sized else iter(dataset)


def _blocks_of(
    items: Iterator[Any], class_names: Sequence[str] | None, dtype: FloatType
) -> Iterator[Block]:
    numbers = itertools.count()
    each = 1
    while some := list(itertools.islice(items, each)):
        pairs = [_pair(item, next(numbers), class_names, dtype) for item in some]
        shapes = {example.shape for example, _ in pairs}
        if len(shapes) > 1:
            raise MetadriftError(f"examples of a pack must be of one shape, not {sorted(shapes)}")
        examples = np.stack([example for example, _ in pairs])
        yield Block(examples, [label for _, label in pairs])
        each = max(1, BLOCK_BYTES // examples[0].nbytes)


def _pair(
    item: Any, number: int, class_names: Sequence[str] | None, dtype: FloatType
) -> tuple[NDArray[Any], str]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise UsageError(
            f"item {number} of the dataset is {type(item).__name__}; it must be a pair of an "
            "example and a label"
        )
    example, label = np.asarray(item[0]), item[1]
    label = label.item() if hasattr(label, "item") else label
    if not isinstance(label, int | str) or isinstance(label, bool):
        raise UsageError(
            f"the label of item {number} must be a whole number or text, not {label!r}"
        )
    if isinstance(label, int) and class_names is not None:
        if not 0 <= label < len(class_names):
            raise UsageError(
                f"the label of item {number} is {label}, and there are {len(class_names)} names"
            )
        label = class_names[label]
    return _example(example, number, dtype), str(label)


def _example(example: NDArray[Any], number: int, dtype: FloatType) -> NDArray[Any]:
    if example.dtype == np.uint8 and example.ndim in (2, 3):
        if example.ndim == 2:
            return example[:, :, None]
        first = example.shape[0] in (1, 3) and example.shape[1] == example.shape[2]
        return example.transpose(1, 2, 0) if first else example
    if example.dtype.kind not in "fiu" or example.ndim == 0:
        raise UsageError(
            f"example {number} must be an array of numbers or a picture, not {example.dtype} "
            f"{list(example.shape)}"
        )
    with np.errstate(over="ignore"):
        made = example.astype(dtype)
    if not np.isfinite(made).all():
        raise MetadriftError(f"example {number} holds a number that is not finite in {dtype}")
    return made
