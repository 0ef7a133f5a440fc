"""A pack: one domain's images on disk, ready to be memory-mapped.

A pack is a folder with two files:

- `images.npy`: uint8 [N, H, W, C], C 1 or 3, sorted by class, opened as a memory map;
- `pack.json`: what the images are. Class c owns the rows `class_offsets[c]:class_offsets[c+1]`.
"""

from __future__ import annotations

import hashlib
import itertools
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le, MinLen
from numpy.typing import NDArray

from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.files import is_folder_name, whole_folder, write_json
from metadrift.storage.reading import read_json
from metadrift.storage.tables import from_table

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
FORMAT = "metadrift-pack/1"

# What numpy may raise on a damaged file: its header is read as a piece of Python.
NPY_ERRORS: tuple[type[Exception], ...] = (ValueError, OSError, EOFError, SyntaxError, TypeError)
NPY_ERRORS += (OverflowError, MemoryError, RecursionError, KeyError, tokenize.TokenError)

_HEADER_BYTES = 128  # a fixed .npy header, rewritten at the end when the number of images is known


@dataclass(frozen=True)
class Description:
    """What pack.json holds. Other keys may be there and are not read."""

    format: str
    name: str
    image_size: Annotated[int, Ge(1), Le(4096)]
    channels: Literal[1, 3]
    class_names: Annotated[list[str], MinLen(1)]
    class_offsets: list[int]
    class_split: list[Split]
    source: str
    licence: str
    sha256: str

    def __post_init__(self) -> None:
        classes, offsets = len(self.class_names), self.class_offsets
        if not is_folder_name(self.name):
            raise UsageError(f"name must be the name of a folder, not {self.name!r}")
        if len(self.class_split) != classes:
            raise UsageError(f"class_split must have {classes} entries, one per class")
        rising = all(a < b for a, b in itertools.pairwise(offsets))
        if len(offsets) != classes + 1 or offsets[0] != 0 or not rising:
            raise UsageError(f"class_offsets must be {classes + 1} rising whole numbers from 0")


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
        """Read every byte and compare with the checksum; `progress` gets the bytes just read."""
        found = _sha256(self.path / "images.npy", progress)
        if found != self.sha256:
            raise MetadriftError(
                f"the images of pack {self.path} are not those it was made with: sha256 {found}, "
                f"pack.json says {self.sha256}. Import or generate it again."
            )


def open_pack(path: Path | str) -> Pack:
    """Map a pack into memory: takes milliseconds and copies nothing, whatever the size."""
    path = Path(path)
    if not path.is_dir():
        raise MetadriftError(f"there is no pack at {path}")
    if not (path / "pack.json").exists():
        raise MetadriftError(f"{path} is not a pack: it has no pack.json")
    said = _read_description(path / "pack.json")
    if not (path / "images.npy").is_file():  # a pipe would block the opening for ever
        raise MetadriftError(f"{path} is not a whole pack: it has no images.npy")
    try:
        # Not np.load, which takes a zip or a pickle of this name as well.
        images = np.lib.format.open_memmap(path / "images.npy", mode="r")
    except NPY_ERRORS as error:
        raise MetadriftError(f"{path / 'images.npy'} is damaged: {error}") from None
    expected = (said.class_offsets[-1], said.image_size, said.image_size, said.channels)
    if images.dtype != np.uint8 or images.shape != expected:
        found = f"{images.dtype} {list(images.shape)}"
        raise MetadriftError(
            f"{path / 'images.npy'} does not fit its pack.json: it holds {found}, "
            f"pack.json says uint8 {list(expected)}"
        )
    return Pack(
        path,
        said.name,
        images,
        said.class_names,
        said.class_offsets,
        said.class_split,
        said.source,
        said.licence,
        said.sha256,
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

    Everything is written to a temporary folder beside `path`, which is renamed when it is whole.
    After an error nothing is left behind. A class without images is left out.
    """
    path = Path(path)
    with whole_folder(path, replace) as temporary:
        said = _write_images(temporary, name, classes, source, licence)
        write_json(temporary / "pack.json", asdict(said))
    return path


def _read_description(file: Path) -> Description:
    table = read_json(file)
    found = table.get("format")
    if not isinstance(found, str) or not found.startswith("metadrift-pack/"):
        raise MetadriftError(f"{file} does not describe a metadrift pack (no 'format' key)")
    if found != FORMAT:
        raise MetadriftError(f"{file} has the format {found!r}; this version reads {FORMAT!r}")
    return from_table(Description, table, str(file), more_keys=True)


def _write_images(
    folder: Path,
    name: str,
    classes: Iterable[tuple[str, Split, NDArray[np.uint8]]],
    source: str,
    licence: str,
) -> Description:
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
            # A name may hold what is no text: bytes of a folder's name, half of a character.
            names.append(class_name.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
            offsets.append(offsets[-1] + len(images))
            splits.append(split)
        if shape is None:
            raise MetadriftError(f"there is no image for pack {name!r}; nothing was written")
        file.seek(0)
        file.write(_npy_header((offsets[-1], *shape)))
    return Description(
        format=FORMAT,
        name=name,
        image_size=shape[0],
        channels=1 if shape[2] == 1 else 3,
        class_names=names,
        class_offsets=offsets,
        class_split=splits,
        source=source,
        licence=licence,
        sha256=_sha256(folder / "images.npy"),
    )


def _npy_header(shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    room = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"


def _sha256(file: Path, progress: Callable[[int], None] | None = None) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
            if progress:
                progress(len(block))
    return digest.hexdigest()
