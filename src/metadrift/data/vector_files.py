"""Files of vectors, one row per step: .npy, .csv, and tables on standard input."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from metadrift.data.pack import NPY_ERRORS
from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.tables import did_you_mean

Missing = Literal["refuse", "skip"]
_MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


@dataclass(frozen=True)
class TableFormat:
    """How a table of text is read.

    Parameters
    ----------
    columns
        The columns to use, by name or by number from 1; all if there are none.
    delimiter
        What stands between two cells.
    time
        A column to ignore, by name or by number from 1.
    missing
        What to do with a row that lacks a value: refuse the table, or skip the row.
    """

    columns: tuple[str, ...] = ()
    delimiter: str = ","
    time: str | None = None
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in "\r\n":
            raise UsageError(f"--delimiter must be one character, not {self.delimiter!r}")


def read_vectors(path: Path, form: TableFormat | None = None) -> np.ndarray:
    """[steps, D] from a .npy file (mapped, not copied), a text table, or - for standard input."""
    form = form or TableFormat()
    if str(path) == "-":
        vectors = read_table(sys.stdin, "standard input", form)
    elif not path.is_file():
        raise MetadriftError(f"there is no file {path}")
    elif path.suffix.lower() in (".csv", ".tsv", ".txt"):
        vectors = _read_text(path, form)
    else:
        if form != TableFormat():
            raise UsageError(
                f"{path} is no table of text: --columns, --delimiter, --time and --missing are for "
                ".csv, .tsv and .txt files and for standard input (-)"
            )
        vectors = _read_npy(path)
    if vectors.ndim == 1:
        vectors = vectors[:, None]
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise MetadriftError(
            f"{path} holds an array {list(vectors.shape)}; it should be [steps, D], a row per step"
        )
    return vectors


def _read_npy(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except NPY_ERRORS as error:
        pickled = "pickle" in str(error) or "Python objects" in str(error)
        why = "it holds pickled objects, which are refused" if pickled else error
        raise MetadriftError(
            f"{path} cannot be read as a .npy file: {why}; `numpy.save` of a plain array makes one"
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        kind = getattr(array, "dtype", "several arrays")
        raise MetadriftError(f"{path} holds {kind}; it should hold one array of real numbers")
    return array


def _read_text(path: Path, form: TableFormat) -> np.ndarray:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return read_table(file, str(path), form)
    except (OSError, UnicodeDecodeError) as error:
        raise MetadriftError(f"{path} cannot be read: {error}") from None


def read_table(lines: Iterable[str], said: str, form: TableFormat) -> np.ndarray:
    """[steps, D] from lines of text; the first line may hold the names of the columns.

    Examples
    --------
    >>> lines = ["day,a,b", "mon,1,2", "tue,,3", "wed,4,5"]
    >>> read_table(lines, "here", TableFormat(time="day", missing="skip")).tolist()
    [[1.0, 2.0], [4.0, 5.0]]
    """
    rows: list[list[float]] = []
    used: list[int] = []
    names: list[str] = []
    number = 0
    try:
        for number, cells in enumerate(csv.reader(lines, delimiter=form.delimiter), 1):
            if not cells:
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                used = _used(names, form, said)
                if not all(_is_number(cells[place]) for place in used):
                    continue  # the names of the columns
            if len(cells) != len(names):
                raise MetadriftError(
                    f"{said}, line {number} has {len(cells)} cells, the first row {len(names)}"
                )
            lacks = [place for place in used if cells[place].strip().lower() in _MISSING]
            if not lacks:
                rows.append([_number(cells, p, names, f"{said}, line {number}") for p in used])
            elif form.missing == "refuse":
                raise MetadriftError(
                    f"{said}, line {number}, column {_called(lacks[0], names)}: the value is "
                    "missing; --missing skip leaves such rows out"
                )
    except csv.Error as error:
        raise MetadriftError(f"{said}, line {number + 1} cannot be read: {error}") from None
    if not rows:
        raise MetadriftError(f"{said} holds no row of numbers")
    return np.array(rows, np.float64)


def _used(names: Sequence[str], form: TableFormat, said: str) -> list[int]:
    """The places of the columns to read."""
    aside = None if form.time is None else _place(form.time, names, "--time", said)
    if not form.columns:
        return [place for place in range(len(names)) if place != aside]
    used = [_place(column, names, "--columns", said) for column in form.columns]
    if aside in used:
        raise UsageError(f"--time leaves {form.time!r} aside, and --columns watches it")
    return used


def _place(column: str, names: Sequence[str], option: str, said: str) -> int:
    if column in names:
        return list(names).index(column)
    if column.isdigit() and 1 <= int(column) <= len(names):
        return int(column) - 1
    hint = did_you_mean(column, names) or f"; it has {', '.join(names[:10])}"
    raise UsageError(f"{option}: {said} has no column {column!r}{hint}")


def _number(cells: Sequence[str], place: int, names: Sequence[str], where: str) -> float:
    try:
        return float(cells[place])
    except ValueError:
        raise MetadriftError(
            f"{where}, column {_called(place, names)}: {cells[place]!r} is not a number"
        ) from None


def _called(place: int, names: Sequence[str]) -> str:
    return str(place + 1) if _is_number(names[place]) else f"{place + 1} ({names[place]})"


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in _MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True
