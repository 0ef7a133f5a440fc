"""A pack: one domain's examples on disk, ready to be memory-mapped.

A pack is a folder with two files. Class c owns the rows `class_offsets[c]:class_offsets[c+1]`.

- `pack.json`: what the examples are;
- of pictures (format 1) `images.npy`: uint8 [N, H, W, C], C 1 or 3, sorted by class;
- of arrays (format 2) `examples.npy`: float16 or float32 [N, *example], sorted by class.
"""

from __future__ import annotations

import hashlib
import itertools
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le, MinLen
from numpy.typing import NDArray

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Arrays, ExampleKind, FloatType, Pictures, kind_of_stored
from metadrift.storage.files import is_folder_name, whole_folder, write_json
from metadrift.storage.reading import read_json
from metadrift.storage.tables import from_table

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")

# What numpy may raise on a damaged file: its header is read as a piece of Python.
NPY_ERRORS: tuple[type[Exception], ...] = (ValueError, OSError, EOFError, SyntaxError, TypeError)
NPY_ERRORS += (OverflowError, MemoryError, RecursionError, KeyError, tokenize.TokenError)
NPZ_ERRORS: tuple[type[Exception], ...] = (RuntimeError, zipfile.BadZipFile, zlib.error)
NPZ_ERRORS += NPY_ERRORS

# A fixed .npy header, rewritten at the end when the number of examples is known.
_HEADER_BYTES = 128


@dataclass(frozen=True, kw_only=True)
class Description:
    """What pack.json holds. Other keys may be there and are not read."""

    format: str
    name: str
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


@dataclass(frozen=True, kw_only=True)
class PictureDescription(Description):
    """Of a pack of pictures."""

    FORMAT: ClassVar[str] = "metadrift-pack/1"
    FILE: ClassVar[str] = "images.npy"
    image_size: Annotated[int, Ge(1), Le(4096)]
    channels: Literal[1, 3]

    @property
    def kind(self) -> ExampleKind:
        return Pictures(self.image_size, self.channels)

    @staticmethod
    def fields_of(kind: ExampleKind) -> dict[str, Any]:
        return {"image_size": kind.shape[1], "channels": kind.shape[0]}


@dataclass(frozen=True, kw_only=True)
class ArrayDescription(Description):
    """Of a pack of arrays."""

    FORMAT: ClassVar[str] = "metadrift-pack/2"
    FILE: ClassVar[str] = "examples.npy"
    example_shape: Annotated[list[Annotated[int, Ge(1)]], MinLen(1)]
    dtype: FloatType

    @property
    def kind(self) -> ExampleKind:
        return Arrays(self.example_shape, self.dtype)

    @staticmethod
    def fields_of(kind: ExampleKind) -> dict[str, Any]:
        return {"example_shape": list(kind.shape), "dtype": kind.dtype}


_Form = type[PictureDescription] | type[ArrayDescription]
_FORMS: dict[type[ExampleKind], _Form] = {Pictures: PictureDescription, Arrays: ArrayDescription}


@dataclass(frozen=True)
class Pack:
    """One domain: its examples and which class belongs to which split.

    Parameters
    ----------
    path, name
        Its folder, and what it calls itself.
    kind
        What its examples are.
    examples
        [N, *kind.stored_shape], a memory map.
    class_names, class_offsets, class_split
        Of each class. Class c owns the rows `class_offsets[c]:class_offsets[c+1]`.
    source, licence, sha256
        Where the examples are from, their licence, and their checksum.

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
    kind: ExampleKind
    examples: NDArray[Any]
    class_names: list[str]
    class_offsets: list[int]
    class_split: list[Split]
    source: str
    licence: str
    sha256: str

    @property
    def images(self) -> NDArray[np.uint8]:
        """The examples of a pack of pictures: uint8 [N, H, W, C]."""
        self.kind.as_pictures(f"what was asked of pack {self.name!r}")
        return self.examples

    @property
    def image_size(self) -> int:
        """Of a pack of pictures: height and width in pixels."""
        return self.kind.as_pictures(f"the image size of pack {self.name!r}").size

    @property
    def channels(self) -> int:
        """Of a pack of pictures: 1 or 3."""
        return self.kind.as_pictures(f"the channels of pack {self.name!r}").channels

    def classes(self, split: Split) -> list[int]:
        """The numbers of the classes of a split."""
        return [c for c, s in enumerate(self.class_split) if s == split]

    def class_size(self, c: int) -> int:
        return self.class_offsets[c + 1] - self.class_offsets[c]

    def verify(self, progress: Callable[[int], None] | None = None) -> None:
        """Read every byte and compare with the checksum; `progress` gets the bytes just read."""
        found = _sha256(self.path / _FORMS[type(self.kind)].FILE, progress)
        if found != self.sha256:
            raise MetadriftError(
                f"the examples of pack {self.path} are not those it was made with: sha256 {found}, "
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
    file, kind = path / said.FILE, said.kind
    if not file.is_file():  # a pipe would block the opening for ever
        raise MetadriftError(f"{path} is not a whole pack: it has no {said.FILE}")
    try:
        # Not np.load, which takes a zip or a pickle of this name as well.
        examples = np.lib.format.open_memmap(file, mode="r")
    except NPY_ERRORS as error:
        raise MetadriftError(f"{file} is damaged: {error}") from None
    expected = (said.class_offsets[-1], *kind.stored_shape)
    if examples.dtype != np.dtype(kind.dtype) or examples.shape != expected:
        found = f"{examples.dtype} {list(examples.shape)}"
        raise MetadriftError(
            f"{file} does not fit its pack.json: it holds {found}, "
            f"pack.json says {kind.dtype} {list(expected)}"
        )
    return Pack(
        path,
        said.name,
        kind,
        examples,
        said.class_names,
        said.class_offsets,
        said.class_split,
        said.source,
        said.licence,
        said.sha256,
    )


Blocks = NDArray[Any] | Iterable[NDArray[Any]]
"""The examples of a class [n, *example], at once or some at a time."""


def write_pack(
    path: Path | str,
    name: str,
    classes: Iterable[tuple[str, Split, Blocks]],
    *,
    source: str,
    licence: str,
    replace: bool = False,
) -> Path:
    """Write a pack from (class name, split, examples), one block in memory at a time.

    Examples are pictures, uint8 [n, H, W, 1 or 3], or arrays, float16 or float32 [n, ...], the same
    for all classes. Those of a class are an array, or blocks of it one after the other.

    Everything is written to a temporary folder beside `path`, which is renamed when it is whole.
    After an error nothing is left behind. A class without examples is left out.
    """
    path = Path(path)
    with whole_folder(path, replace) as temporary:
        said = _write_examples(temporary, name, classes, source, licence)
        write_json(temporary / "pack.json", asdict(said))
    return path


def _read_description(file: Path) -> PictureDescription | ArrayDescription:
    table = read_json(file)
    found = table.get("format")
    if not isinstance(found, str) or not found.startswith("metadrift-pack/"):
        raise MetadriftError(f"{file} does not describe a metadrift pack (no 'format' key)")
    for form in _FORMS.values():
        if found == form.FORMAT:
            return from_table(form, table, str(file), more_keys=True)
    known = " and ".join(repr(form.FORMAT) for form in _FORMS.values())
    raise MetadriftError(f"{file} has the format {found!r}; this version reads {known}")


def _write_examples(
    folder: Path,
    name: str,
    classes: Iterable[tuple[str, Split, Blocks]],
    source: str,
    licence: str,
) -> PictureDescription | ArrayDescription:
    names: list[str] = []
    offsets: list[int] = [0]
    splits: list[Split] = []
    kind: ExampleKind | None = None
    unnamed = folder / "examples.part"  # its name follows from what is in it
    with open(unnamed, "wb") as file:
        file.write(b"\0" * _HEADER_BYTES)
        for class_name, split, blocks in classes:
            rows = 0
            for block in [blocks] if isinstance(blocks, np.ndarray) else blocks:
                if len(block) == 0:
                    continue
                kind = _same_kind(kind, block, class_name)
                file.write(np.ascontiguousarray(block).data)
                rows += len(block)
            if rows:
                names.append(_text(class_name))
                offsets.append(offsets[-1] + rows)
                splits.append(split)
        if kind is None:
            raise MetadriftError(f"there is no example for pack {name!r}; nothing was written")
        file.seek(0)
        file.write(_npy_header((offsets[-1], *kind.stored_shape), kind.dtype))
    form = _FORMS[type(kind)]
    unnamed.rename(folder / form.FILE)
    made: PictureDescription | ArrayDescription = form(
        format=form.FORMAT,
        name=_text(name),
        class_names=names,
        class_offsets=offsets,
        class_split=splits,
        source=_text(source),
        licence=_text(licence),
        sha256=_sha256(folder / form.FILE),
        **form.fields_of(kind),
    )
    return made


def _text(words: str) -> str:
    """A name may hold what is no text: bytes of a folder's name, half of a character."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _same_kind(kind: ExampleKind | None, block: NDArray[Any], class_name: str) -> ExampleKind:
    try:
        found = kind_of_stored(block)
    except MetadriftError as error:
        raise MetadriftError(f"class {class_name!r}: {error}") from None
    if kind is not None and found != kind:
        raise MetadriftError(
            f"examples of a pack must be of one size and type: class {class_name!r} has "
            f"{list(found.stored_shape)}, the first class {list(kind.stored_shape)}"
        )
    if not isinstance(found, Pictures) and not np.isfinite(block).all():
        raise MetadriftError(
            f"an example of class {class_name!r} holds a number that is NaN or infinite"
        )
    return found


def read_npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of a .npy file whose rows are then read from the stream.

    `np.load` would read all rows of a file inside an archive at once.
    """
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"the .npy version {version} is not known")
    headers = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    return headers[version[0] - 1](stream)


def _npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    descr = np.dtype(dtype).newbyteorder("<").str
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
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
