"""What an importer gives: which classes there are, and what makes their images.

A plan is made from the listing alone and is quick. The pieces of work in it are small values that
travel to worker processes, which do the decoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from metadrift.data.images import (
    MAX_FILE_BYTES,
    SUFFIXES,
    Box,
    ImageFormat,
    UnreadableImageError,
    decode,
)
from metadrift.data.importers.source import Source
from metadrift.data.pack import SPLITS, Split
from metadrift.errors import MetadriftError


@dataclass(frozen=True)
class Options:
    """What a person may ask of an importer; which of them a dataset knows is in its Kind."""

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


class Piece(Protocol):
    """Work that makes some images of one class."""

    @property
    def member(self) -> str | None:
        """The file of the source to read; None when the piece carries its own pixels."""

    @property
    def count(self) -> int:
        """How many images to expect, for the progress bar."""

    def make(
        self, file: BinaryIO | None, look: ImageFormat
    ) -> Iterator[NDArray[np.uint8] | Unreadable]:
        """The images, uint8 [size, size, channels] each."""


@dataclass(frozen=True)
class ImageFile:
    """A file that is one image."""

    member: str
    box: Box | None = None
    strip: int = 0
    turn: int = 0
    count: int = 1

    def make(
        self, file: BinaryIO | None, look: ImageFormat
    ) -> Iterator[NDArray[np.uint8] | Unreadable]:
        assert file is not None
        try:
            data = file.read(MAX_FILE_BYTES + 1)
            yield decode(data, look, box=self.box, strip=self.strip, turn=self.turn)
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
        Where the pieces' files are read; None when the pieces carry their own pixels.
    channels
        1 or 3.
    origin, licence
        For pack.json.
    notes
        Sentences that the person should read.
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


def planned(
    files: Mapping[str, list[ImageFile]], splits: Mapping[str, Split], options: Options
) -> list[PlannedClass]:
    """Classes in the order train, val, test and by name, each cut to `per_class` images."""
    order = sorted(files, key=lambda name: (SPLITS.index(splits[name]), name))
    return [PlannedClass(name, splits[name], [*files[name][: options.per_class]]) for name in order]


def off_the_list(unknown: list[str]) -> list[str]:
    """The note about classes that the published split does not name."""
    if not unknown:
        return []
    shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
    return [
        f"{len(unknown)} classes are not on the published list and were put into a split by a "
        f"hash of their names: {shown}"
    ]


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
