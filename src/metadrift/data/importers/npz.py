"""Arrays in one .npz file: `images`, `labels`, and optionally `names` and `class_split`."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from metadrift.data.images import resize_array
from metadrift.data.importers.archives import names_in_zip
from metadrift.data.importers.plan import Images, Options, Piece, Plan, PlannedClass
from metadrift.data.importers.splits import random_splits
from metadrift.data.pack import NPZ_ERRORS, Split
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures

_SPLITS: dict[str, Split] = {"train": "train", "val": "val", "valid": "val", "test": "test"}
_CHUNK = 256


@dataclass(frozen=True)
class Pixels:
    """Images that are already pixels: uint8 [n, H, W] or [n, H, W, 1 or 3]."""

    images: NDArray[np.uint8]
    turn: int = 0
    """Degrees to turn to the left: 0, 90, 180 or 270."""
    member: None = None

    @property
    def count(self) -> int:
        return len(self.images)

    def make(self, file: BinaryIO | None, form: Pictures) -> Images:
        for image in self.images:
            yield resize_array(np.rot90(image, self.turn // 90), form)


def plan(path: Path, options: Options) -> Plan:
    """Read the arrays and sort them by class."""
    if not path.is_file():
        raise MetadriftError(f"there is no file {path}; `npz` reads one .npz file")
    arrays = _load(path)
    images, labels = arrays["images"], arrays["labels"]
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or 0 in images.shape:
        raise _wrong(path, "images", "uint8 [N, H, W] or [N, H, W, 1 or 3]", images)
    if images.ndim == 4 and images.shape[3] not in (1, 3):
        raise _wrong(path, "images", "uint8 [N, H, W] or [N, H, W, 1 or 3]", images)
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise _wrong(path, "labels", f"{len(images)} whole numbers", labels)
    names = _names(path, arrays, labels)
    splits = _class_splits(path, arrays, names)
    classes = []
    for c, name in enumerate(names):
        rows = np.flatnonzero(labels == c)[: options.per_class]
        if len(rows) == 0:
            continue
        parts = [rows[i : i + _CHUNK] for i in range(0, len(rows), _CHUNK)]
        turns = (0, 90, 180, 270) if options.rotations and splits[name] != "test" else (0,)
        for turn in turns:
            pieces: list[Piece] = [Pixels(images[part], turn) for part in parts]
            turned = f"{name}/rot{turn:03d}" if turn else name
            classes.append(PlannedClass(turned, splits[name], pieces))
    colour = images.ndim == 4 and images.shape[3] == 3 and not options.grey
    origin = _text(arrays, "source") or f"arrays in {path.name}"
    origin += "; with rotated classes" if options.rotations else ""
    return Plan(classes, None, 3 if colour else 1, origin, _text(arrays, "licence") or "not stated")


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            list(names_in_zip(path, archive))
        with np.load(path, allow_pickle=False) as file:
            keys = ("images", "labels", "names", "class_split", "source", "licence")
            arrays = {key: np.asarray(file[key]) for key in keys if key in file.files}
    except NPZ_ERRORS as error:
        raise MetadriftError(f"{path} cannot be read as .npz arrays: {error}") from None
    missing = [key for key in ("images", "labels") if key not in arrays]
    if missing:
        raise MetadriftError(
            f"{path} lacks {' and '.join(missing)}; `npz` reads images and labels, and "
            "optionally names, class_split, source and licence"
        )
    return arrays


def _names(path: Path, arrays: dict[str, NDArray[Any]], labels: NDArray[Any]) -> list[str]:
    if "names" not in arrays:
        if labels.min() < 0 or labels.max() >= len(labels):
            raise MetadriftError(f"labels in {path} must count from 0, without large gaps")
        return [str(c) for c in range(int(labels.max()) + 1)]
    names = arrays["names"]
    if names.dtype.kind not in "US" or names.ndim != 1:
        raise _wrong(path, "names", "a list of text", names)
    texts = [n.decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in names]
    if labels.min() < 0 or labels.max() >= len(texts):
        raise MetadriftError(
            f"labels in {path} go from {labels.min()} to {labels.max()}, but there are "
            f"{len(texts)} names; a label is a place in names, from 0"
        )
    twice = sorted({text for text in texts if texts.count(text) > 1})
    if twice:
        raise MetadriftError(f"names in {path} holds {twice[0]!r} more than once")
    return texts


def _class_splits(
    path: Path, arrays: dict[str, NDArray[Any]], names: list[str]
) -> dict[str, Split]:
    given = arrays.get("class_split", np.full(len(names), ""))
    if given.dtype.kind not in "US" or given.shape != (len(names),):
        raise _wrong(path, "class_split", f"{len(names)} words, one per class", given)
    words = [w.decode("ascii", "replace") if isinstance(w, bytes) else str(w) for w in given]
    wrong = [word for word in words if word and word not in _SPLITS]
    if wrong:
        raise MetadriftError(
            f"class_split in {path} holds {wrong[0]!r}; it may hold train, val, test or nothing"
        )
    splits = random_splits(name for name, word in zip(names, words, strict=True) if not word)
    return splits | {n: _SPLITS[word] for n, word in zip(names, words, strict=True) if word}


def _text(arrays: dict[str, NDArray[Any]], key: str) -> str:
    found = arrays.get(key)
    return "" if found is None or found.dtype.kind != "U" else " ".join(map(str, found.ravel()))


def _wrong(path: Path, key: str, wanted: str, found: NDArray[Any]) -> MetadriftError:
    return MetadriftError(
        f"{key} in {path} must be {wanted}, not {found.dtype} {list(found.shape)}"
    )
