"""The pack: one domain's images on disk, ready to be memory-mapped.

A pack is a folder with two files:

- `images.npy`: uint8 [N, H, W, C], C 1 or 3, sorted by class, opened as a memory map;
- `pack.json`: what the images are. Class c owns the rows `class_offsets[c]:class_offsets[c+1]`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from metadrift.errors import MetadriftError
from metadrift.storage.files import whole_folder

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
FORMAT = "metadrift-pack/1"

# What numpy may raise on a damaged file: its header is read as a piece of Python.
NPY_ERRORS: tuple[type[Exception], ...] = (ValueError, OSError, EOFError, SyntaxError, TypeError)
NPY_ERRORS += (OverflowError, MemoryError, RecursionError, KeyError, tokenize.TokenError)

_HEADER_BYTES = 128  # a fixed .npy header, rewritten at the end when the number of images is known
_KEYS = ["format", "name", "image_size", "channels", "class_names", "class_offsets"]
_KEYS += ["class_split", "source", "licence", "sha256"]


@dataclass(frozen=True)
class Pack:
    """One domain: its images and which class belongs to which split.

    Examples
    --------
    >>> import tempfile
    >>> rows = [("cat", "train", np.zeros((3, 28, 28, 1), np.uint8)),
    ...         ("dog", "test", np.ones((2, 28, 28, 1), np.uint8))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_pack(Path(folder) / "pets", "pets", rows, source="me", licence="CC0")
    ...     pack = open_pack(path)
    ...     pack.images.shape, pack.classes("test"), pack.class_names[1]
    ((5, 28, 28, 1), [1], 'dog')
    """

    path: Path
    name: str
    images: NDArray[np.uint8]
    class_names: list[str]
    class_offsets: list[int]
    class_split: list[Split]
    source: str
    licence: str
    sha256: str

    @property
    def image_size(self) -> int:
        return int(self.images.shape[1])

    @property
    def channels(self) -> int:
        return int(self.images.shape[3])

    def classes(self, split: Split) -> list[int]:
        """The numbers of the classes of a split."""
        return [c for c, s in enumerate(self.class_split) if s == split]

    def class_size(self, c: int) -> int:
        return self.class_offsets[c + 1] - self.class_offsets[c]

    def verify(self, progress: Callable[[int], None] | None = None) -> None:
        """Read every byte and compare with the checksum; `progress` is told the bytes read."""
        found = _sha256(self.path / "images.npy", progress)
        if found != self.sha256:
            raise MetadriftError(
                f"the images of pack {self.path} are not those it was made with: sha256 {found}, "
                f"pack.json says {self.sha256}. Import or generate it again."
            )


def open_pack(path: Path | str) -> Pack:
    """Map a pack into memory: milliseconds and no copy, whatever its size."""
    path = Path(path)
    if not path.is_dir():
        raise MetadriftError(f"there is no pack at {path}")
    try:
        meta = json.loads((path / "pack.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MetadriftError(f"{path} is not a pack: it has no pack.json") from None
    except (ValueError, OSError, RecursionError) as error:
        raise MetadriftError(f"{path / 'pack.json'} cannot be read as JSON: {error}") from None
    _check_meta(path, meta)
    try:
        # Not np.load, which takes a zip or a pickle of this name as well.
        images = np.lib.format.open_memmap(path / "images.npy", mode="r")
    except FileNotFoundError:
        raise MetadriftError(f"{path} is not a whole pack: it has no images.npy") from None
    except NPY_ERRORS as error:
        raise MetadriftError(f"{path / 'images.npy'} is damaged: {error}") from None
    size, offsets = meta["image_size"], meta["class_offsets"]
    expected = (offsets[-1], size, size, meta["channels"])
    if images.dtype != np.uint8 or images.shape != expected:
        found = f"{images.dtype} {list(images.shape)}"
        raise MetadriftError(
            f"{path / 'images.npy'} does not fit its pack.json: it holds {found}, "
            f"pack.json says uint8 {list(expected)}"
        )
    return Pack(
        path,
        meta["name"],
        images,
        meta["class_names"],
        offsets,
        cast(list[Split], meta["class_split"]),
        meta["source"],
        meta["licence"],
        meta["sha256"],
    )


def write_pack(
    path: Path | str,
    name: str,
    classes: Iterable[tuple[str, Split, NDArray[np.uint8]]],
    *,
    source: str,
    licence: str,
    replace: bool = False,
) -> Path:
    """Write a pack from (class name, split, uint8 [n, H, W, C]), one class in memory at a time.

    Everything goes to a temporary folder beside `path`, which takes its name only when whole; on
    any error nothing is left behind. A class without images is left out.
    """
    path = Path(path)
    with whole_folder(path, replace) as temporary:
        meta = _write_files(temporary, name, classes, source, licence)
        (temporary / "pack.json").write_text(
            json.dumps(meta, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return path


def _write_files(
    folder: Path,
    name: str,
    classes: Iterable[tuple[str, Split, NDArray[np.uint8]]],
    source: str,
    licence: str,
) -> dict[str, Any]:
    names: list[str] = []
    offsets: list[int] = [0]
    splits: list[Split] = []
    shape: tuple[int, ...] | None = None
    with open(folder / "images.npy", "wb") as file:
        file.write(b"\0" * _HEADER_BYTES)
        for class_name, split, images in classes:
            if len(images) == 0:
                continue
            if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
                raise MetadriftError(
                    f"images of class {class_name!r} must be uint8 [n, H, W, 1 or 3], "
                    f"not {images.dtype} {list(images.shape)}"
                )
            shape = shape or images.shape[1:]
            if images.shape[1:] != shape or shape[0] != shape[1]:
                raise MetadriftError(
                    f"images of a pack must be square and of one size: class {class_name!r} has "
                    f"{list(images.shape[1:])}, the first class {list(shape)}"
                )
            file.write(np.ascontiguousarray(images).data)
            names.append(class_name)
            offsets.append(offsets[-1] + len(images))
            splits.append(split)
        if shape is None:
            raise MetadriftError(f"there is no image for pack {name!r}; nothing was written")
        file.seek(0)
        file.write(_npy_header((offsets[-1], *shape)))
    return {
        "format": FORMAT,
        "name": name,
        "image_size": shape[0],
        "channels": shape[2],
        "class_names": names,
        "class_offsets": offsets,
        "class_split": splits,
        "source": source,
        "licence": licence,
        "sha256": _sha256(folder / "images.npy"),
    }


def _npy_header(shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    room = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"


def _check_meta(path: Path, meta: Any) -> None:
    file = path / "pack.json"
    if not isinstance(meta, dict) or not str(meta.get("format", "")).startswith("metadrift-pack/"):
        raise MetadriftError(f"{file} does not describe a metadrift pack (no 'format' key)")
    if meta["format"] != FORMAT:
        raise MetadriftError(
            f"{file} has the format {meta['format']!r}; this version reads {FORMAT!r}"
        )
    missing = [key for key in _KEYS if key not in meta]
    if missing:
        raise MetadriftError(f"{file} lacks {', '.join(missing)}")
    for key in ("name", "source", "licence", "sha256"):
        if not isinstance(meta[key], str):
            raise MetadriftError(f"{file}: {key} must be text")
    names, offsets, splits = meta["class_names"], meta["class_offsets"], meta["class_split"]
    if not (isinstance(names, list) and all(isinstance(n, str) for n in names) and names):
        raise MetadriftError(f"{file}: class_names must be a list of text")
    if not (isinstance(splits, list) and len(splits) == len(names)):
        raise MetadriftError(f"{file}: class_split must have one entry a class")
    wrong = [s for s in splits if s not in SPLITS]
    if wrong:
        raise MetadriftError(f"{file}: class_split holds {wrong[0]!r}, not train, val or test")
    rising = (
        isinstance(offsets, list)
        and len(offsets) == len(names) + 1
        and all(type(o) is int for o in offsets)
        and offsets[0] == 0
        and all(a < b for a, b in itertools.pairwise(offsets))
    )
    if not rising:
        raise MetadriftError(
            f"{file}: class_offsets must be {len(names) + 1} rising whole numbers from 0"
        )
    if type(meta["image_size"]) is not int or meta["channels"] not in (1, 3):
        raise MetadriftError(f"{file}: image_size must be a whole number and channels 1 or 3")


def _sha256(file: Path, progress: Callable[[int], None] | None = None) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
            if progress:
                progress(len(block))
    return digest.hexdigest()
