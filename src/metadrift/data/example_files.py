"""Files of vectors with labels: .npz, .npy, .csv and .parquet, read some rows at a time."""

from __future__ import annotations

import csv
import importlib
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metadrift.data.importers.archives import names_in_zip
from metadrift.data.pack import NPY_ERRORS, NPZ_ERRORS, read_npy_header
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import FloatType

BLOCK_BYTES = 1 << 22
SUFFIXES = (".npz", ".npy", ".csv", ".parquet")


@dataclass(frozen=True)
class Block:
    """Some rows of a file: examples [n, *example], and their classes and splits if given."""

    examples: NDArray[Any]
    labels: Sequence[str] | None = None
    splits: Sequence[str] | None = None


@dataclass(frozen=True)
class Columns:
    """Where to find the class of a row.

    Parameters
    ----------
    labels
        Of a .npy file: another file with a label per row, .npy or a line each.
    label
        Of .csv and .parquet: the column with the class.
    split
        Of .csv and .parquet: the column with train, val or test, the same for all of a class.
    """

    labels: Path | None = None
    label: str = "label"
    split: str | None = None


def read_blocks(
    path: Path, columns: Columns, dtype: FloatType = "float32", labelled: bool = True
) -> Iterator[Block]:
    """The rows of a file in order, as finite numbers of the type asked for.

    With `labelled` a file without labels is refused; without, the blocks may have none.
    """
    if not path.is_file():
        raise MetadriftError(f"there is no file {path}")
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} is none of {', '.join(SUFFIXES)}, by its name")
    read = {".npz": _npz, ".npy": _npy, ".csv": _csv, ".parquet": _parquet}[path.suffix.lower()]
    row = 0
    for block in read(path, columns, labelled):
        with np.errstate(over="ignore"):
            examples = block.examples.astype(dtype)
        wrong = ~np.isfinite(examples).reshape(len(examples), -1).all(1)
        if wrong.any():
            first = int(wrong.argmax())
            why = "is NaN or infinite"
            if np.isfinite(block.examples[first]).all():
                why = f"is too large for {dtype}"
            raise MetadriftError(f"{path}, row {row + first + 1} holds a number that {why}")
        yield replace(block, examples=examples)
        row += len(examples)
    if row == 0:
        raise MetadriftError(f"{path} has no rows")


def _rows_of(shape: Sequence[int], itemsize: int) -> int:
    return max(1, BLOCK_BYTES // max(math.prod(shape) * itemsize, 1))


def _npy(path: Path, columns: Columns, labelled: bool) -> Iterator[Block]:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except NPY_ERRORS as error:
        raise MetadriftError(f"{path} cannot be read as a .npy file: {error}") from None
    _check_array(path, "it", array.dtype, array.shape)
    labels = None if columns.labels is None else _label_file(columns.labels)
    if labels is None and labelled:
        raise UsageError(f"{path} says no classes; give --labels FILE with a label per row")
    if labels is not None and len(labels) != len(array):
        raise MetadriftError(
            f"{columns.labels} has {len(labels)} labels for the {len(array)} rows of {path}"
        )
    each = _rows_of(array.shape[1:], array.dtype.itemsize)
    for start in range(0, len(array), each):
        some = slice(start, start + each)
        yield Block(np.array(array[some]), labels[some] if labels else None)


def _label_file(path: Path) -> list[str]:
    if not path.is_file():
        raise MetadriftError(f"there is no file {path}")
    try:
        if path.suffix.lower() != ".npy":
            return path.read_text(encoding="utf-8-sig").splitlines()
        return _as_labels(path, np.lib.format.open_memmap(path, mode="r"))
    except NPY_ERRORS as error:  # UnicodeDecodeError is a ValueError
        raise MetadriftError(f"the labels in {path} cannot be read: {error}") from None


def _as_labels(path: Path, array: NDArray[Any]) -> list[str]:
    if array.ndim != 1 or array.dtype.kind not in "iuUS":
        raise MetadriftError(
            f"labels in {path} must be whole numbers or text, one per row, "
            f"not {array.dtype} {list(array.shape)}"
        )
    return [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in array]


def _check_array(path: Path, what: str, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
    if dtype.kind not in "fiu" or len(shape) < 2 or 0 in shape:
        raise MetadriftError(
            f"{what} in {path} must be numbers [rows, ...], not {dtype} {list(shape)}"
        )


def _npz(path: Path, columns: Columns, labelled: bool) -> Iterator[Block]:
    try:
        with zipfile.ZipFile(path) as archive:
            list(names_in_zip(path, archive))
            with np.load(path, allow_pickle=False) as file:
                small = {key: file[key] for key in file.files if key != "examples"}
                if "examples" not in file.files or (labelled and "labels" not in small):
                    raise MetadriftError(
                        f"{path} must hold the arrays examples and labels; it holds "
                        f"{', '.join(file.files) or 'none'}"
                    )
            labels, splits = _npz_labels(path, small)
            row = 0
            with archive.open("examples.npy") as stream:
                for examples in _streamed(path, stream):
                    some = slice(row, row + len(examples))
                    row += len(examples)
                    if labels is not None and row > len(labels):
                        break
                    yield Block(examples, labels and labels[some], splits and splits[some])
    except NPZ_ERRORS as error:
        raise MetadriftError(f"{path} cannot be read as .npz arrays: {error}") from None
    if labels is not None and row != len(labels):
        raise MetadriftError(f"{path} has {len(labels)} labels for other than {row} examples")


def _npz_labels(
    path: Path, small: dict[str, NDArray[Any]]
) -> tuple[list[str] | None, list[str] | None]:
    if "labels" not in small:
        return None, None
    labels = _as_labels(path, small["labels"])
    if "names" in small:
        names = _as_labels(path, small["names"])
        wrong = [one for one in labels if not one.isdigit() or int(one) >= len(names)]
        if wrong:
            raise MetadriftError(
                f"labels in {path} hold {wrong[0]!r}, but there are {len(names)} names; a label is "
                "a place in names, from 0"
            )
        places = [int(one) for one in labels]
    else:
        names = sorted(set(labels), key=lambda one: (len(one), one))
        place = {name: p for p, name in enumerate(names)}
        places = [place[one] for one in labels]
    if "class_split" not in small:
        return [names[p] for p in places], None
    of_class = _as_labels(path, small["class_split"])
    if len(of_class) != len(names):
        raise MetadriftError(f"class_split in {path} must have {len(names)} words, one per class")
    return [names[p] for p in places], [of_class[p] for p in places]


def _streamed(path: Path, stream: Any) -> Iterator[NDArray[Any]]:
    """The rows of a .npy file that is read from its beginning to its end."""
    shape, fortran, dtype = read_npy_header(stream)
    _check_array(path, "examples", dtype, shape)
    if fortran:
        raise MetadriftError(
            f"examples in {path} are stored column by column; save them in C order"
        )
    each, left = _rows_of(shape[1:], dtype.itemsize), shape[0]
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    while left:
        rows = min(each, left)
        data = stream.read(rows * row_bytes)
        if len(data) < rows * row_bytes:
            raise MetadriftError(f"examples in {path} end too early")
        yield np.frombuffer(data, dtype).reshape(rows, *shape[1:])
        left -= rows


def _csv(path: Path, columns: Columns, labelled: bool) -> Iterator[Block]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            head = next(reader, [])
            label, split, numbers = _places(path, head, columns, labelled)
            each = _rows_of([len(numbers)], 8)
            rows: list[list[float]] = []
            labels: list[str] = []
            splits: list[str] = []
            for cells in reader:
                if not cells:
                    continue
                rows.append(_numbers(path, reader.line_num, head, cells, numbers))
                labels += [cells[label]] if label is not None else []
                splits += [cells[split]] if split is not None else []
                if len(rows) == each:
                    yield Block(np.array(rows), labels or None, splits or None)
                    rows, labels, splits = [], [], []
            if rows:
                yield Block(np.array(rows), labels or None, splits or None)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MetadriftError(f"{path} cannot be read: {error}") from None


def _numbers(
    path: Path, line: int, head: list[str], cells: list[str], places: list[int]
) -> list[float]:
    if len(cells) != len(head):
        raise MetadriftError(
            f"{path}, line {line} has {len(cells)} cells, and there are {len(head)} columns"
        )
    found = []
    for place in places:
        try:
            found.append(float(cells[place]))
        except ValueError:
            raise MetadriftError(
                f"{path}, line {line}, column {head[place]!r}: {cells[place]!r} is not a number"
            ) from None
    return found


def _places(
    path: Path, head: Sequence[str], columns: Columns, labelled: bool
) -> tuple[int | None, int | None, list[int]]:
    """The places of the label, of the split and of the numbers among the columns."""
    names = list(head)
    if not names:
        raise MetadriftError(f"{path} is empty; its first line must name the columns")
    if columns.label not in names and labelled:
        shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        raise MetadriftError(
            f"{path} has no column {columns.label!r} with the classes; give --label-column. Its "
            f"columns are {shown}"
        )
    if columns.split is not None and columns.split not in names:
        raise MetadriftError(f"{path} has no column {columns.split!r} with the splits")
    label = names.index(columns.label) if columns.label in names else None
    split = None if columns.split is None else names.index(columns.split)
    numbers = [place for place in range(len(names)) if place not in (label, split)]
    if not numbers:
        raise MetadriftError(f"{path} has no columns of numbers beside the classes")
    return label, split, numbers


def _parquet(path: Path, columns: Columns, labelled: bool) -> Iterator[Block]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        arrow: Any = importlib.import_module("pyarrow")
    except ImportError:
        raise MetadriftError(
            f"{path}: reading Parquet needs pyarrow; `pip install 'metadrift[parquet]'` brings it"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            head = file.schema_arrow.names
            label, split, numbers = _places(path, head, columns, labelled)
            for batch in file.iter_batches(batch_size=1024):
                if not len(batch):
                    continue
                parts = [_column(path, head[p], batch.column(p)) for p in numbers]
                yield Block(
                    np.concatenate(parts, 1),
                    None if label is None else _texts(path, head[label], batch.column(label)),
                    None if split is None else _texts(path, head[split], batch.column(split)),
                )
    except (arrow.ArrowException, OSError) as error:
        raise MetadriftError(f"{path} cannot be read as Parquet: {error}") from None


def _column(path: Path, name: str, column: Any) -> NDArray[Any]:
    """A column of numbers [n, 1], or of lists of one length [n, length]."""
    rows, kind = len(column), str(column.type)
    values = column.flatten() if "list" in kind else column
    if column.null_count or values.null_count:
        raise MetadriftError(f"{path}, column {name!r} has rows without a value")
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "fiu":
        raise MetadriftError(
            f"{path}, column {name!r} holds {kind} and no numbers; leave it out of the file, or "
            "name it with --label-column or --split-column"
        )
    if len(numbers) % rows or ("list" in kind and len(set(column.value_lengths().to_pylist())) > 1):
        raise MetadriftError(f"{path}, column {name!r} holds lists of different lengths")
    return np.asarray(numbers.reshape(rows, -1))


def _texts(path: Path, name: str, column: Any) -> list[str]:
    found = column.to_pylist()
    if any(not isinstance(one, str | int) for one in found):
        raise MetadriftError(
            f"{path}, column {name!r} must hold text or whole numbers in every row"
        )
    return [str(one) for one in found]
