"""What an importer returns: which classes there are, and the work that makes their images.

A plan is made quickly, from the list of files alone. The pieces of work in it are small values.
They are sent to worker processes, which decode the images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from metadrift.data.images import MAX_FILE_BYTES, SUFFIXES, Box, UnreadableImageError, decode
from metadrift.data.importers.source import Source
from metadrift.data.pack import SPLITS, Split
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures

ReadBox = Callable[[float, float, float, float], Box]


@dataclass(frozen=True)
class Options:
    """The options of an import. `Kind.options` lists those that a dataset has."""

    per_class: int | None = None
    crop_to_box: bool = False
    rotations: bool = False
    keep_unrecognized: bool = False
    grey: bool = False


@dataclass(frozen=True)
class Unreadable:
    """One file or drawing that could not be used, and why."""

    name: str
    reason: str


Images = Iterator[NDArray[np.uint8] | Unreadable]
"""uint8 [size, size, channels] each."""


class Piece(Protocol):
    """Work that makes some images of one class."""

    @property
    def member(self) -> str | None:
        """The file of the source to read; None if the piece holds its pixels itself."""

    @property
    def count(self) -> int:
        """How many images to expect, for the progress bar."""

    def make(self, file: BinaryIO | None, form: Pictures) -> Images:
        """The images."""


@dataclass(frozen=True)
class ImageFile:
    """A file that is one image."""

    member: str
    box: Box | None = None
    strip: int = 0
    turn: int = 0
    count: int = 1

    def make(self, file: BinaryIO | None, form: Pictures) -> Images:
        assert file is not None
        try:
            data = file.read(MAX_FILE_BYTES + 1)
            yield decode(data, form, box=self.box, strip=self.strip, turn=self.turn)
        except UnreadableImageError as error:
            yield Unreadable(self.member, str(error))


@dataclass(frozen=True)
class PlannedClass:
    name: str
    split: Split
    pieces: list[Piece]


@dataclass(frozen=True)
class Plan:
    """Everything an import will do.

    Parameters
    ----------
    classes
        In the order of the pack.
    source
        Where the files of the pieces are read; None if the pieces hold their pixels themselves.
    channels
        1 or 3.
    origin, licence
        For pack.json.
    notes
        Sentences that the user should read.
    """

    classes: list[PlannedClass]
    source: Source | None
    channels: int
    origin: str
    licence: str
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many images to expect."""
        return sum(piece.count for planned in self.classes for piece in planned.pieces)


def is_image(name: str) -> bool:
    """Whether a file's name ends like an image's."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES


def plan_of(
    files: Mapping[str, Sequence[Piece]],
    splits: Mapping[str, Split],
    options: Options,
    source: Source,
    origin: str,
    licence: str,
    notes: Sequence[str] = (),
    *,
    colour: bool = True,
) -> Plan:
    """The plan of a dataset of files by class.

    Classes come in the order train, val, test and by name, each with at most `per_class` files.
    """
    order = sorted(files, key=lambda name: (SPLITS.index(splits[name]), name))
    classes = [
        PlannedClass(name, splits[name], [*files[name][: options.per_class]]) for name in order
    ]
    if options.crop_to_box:
        origin += "; cropped to the bounding boxes"
    if options.rotations:
        origin += "; with rotated classes"
    channels = 3 if colour and not options.grey else 1
    return Plan(classes, source, channels, origin, licence, list(notes))


def off_the_list(unknown: list[str]) -> list[str]:
    """The note about classes that the published split does not name."""
    if not unknown:
        return []
    shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
    return [
        f"{len(unknown)} classes are not on the published list and were put into a split by a "
        f"hash of their names: {shown}"
    ]


def bounding_box(path: Path, image: str, text: str | None, layout: str, read: ReadBox) -> Box:
    """The box that a line of numbers gives; `layout` names them, for the error."""
    try:
        a, b, c, d = (float(word) for word in str(text).split())
        return read(a, b, c, d)
    except (ValueError, OverflowError):
        raise MetadriftError(
            f"image {image} of {path} has no bounding box `{layout}`, but {text!r}"
        ) from None


def text_lines(source: Source, name: str) -> list[str]:
    """The lines of a small text file in the source, without line ends and empty lines."""
    try:
        with source.open(name) as file:
            text = file.read(64 * 2**20).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MetadriftError(f"{name} in {source.path} is not text in UTF-8") from None
    return [line for line in text.splitlines() if line.strip()]


def id_table(source: Source, name: str) -> dict[str, str]:
    """A text file of `id text` lines, split once: names may hold spaces and slashes."""
    if name not in source.names:
        raise MetadriftError(f"{source.path} lacks {name}")
    pairs = [line.strip().split(" ", 1) for line in text_lines(source, name)]
    wrong = [pair for pair in pairs if len(pair) != 2]
    if wrong:
        raise MetadriftError(f"{name} in {source.path}: {wrong[0]} is not a line of `id text`")
    return {number: text.strip() for number, text in pairs}
