"""Files of vectors, one row per step: .npy and .csv."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from metadrift.data.pack import NPY_ERRORS
from metadrift.errors import MetadriftError


def read_vectors(path: Path) -> np.ndarray:
    """[steps, D] from a .npy file (mapped, not copied) or a .csv file."""
    if not path.is_file():
        raise MetadriftError(f"there is no file {path}")
    vectors = _read_csv(path) if path.suffix.lower() == ".csv" else _read_npy(path)
    if vectors.ndim == 1:
        vectors = vectors[:, None]
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise MetadriftError(
            f"{path} holds an array {list(vectors.shape)}; it should be [steps, D], a row a step"
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


def _read_csv(path: Path) -> np.ndarray:
    rows: list[list[float]] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            for number, cells in enumerate(csv.reader(file), 1):
                if not cells:
                    continue
                try:
                    rows.append([float(cell) for cell in cells])
                except ValueError:
                    if number == 1:
                        continue  # the names of the columns
                    raise MetadriftError(
                        f"{path}, line {number}: {cells[:3]} are not all numbers"
                    ) from None
                if len(rows[-1]) != len(rows[0]):
                    raise MetadriftError(
                        f"{path}, line {number} has {len(rows[-1])} numbers, the first row "
                        f"{len(rows[0])}"
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MetadriftError(f"{path} cannot be read: {error}") from None
    return np.array(rows, np.float64)
