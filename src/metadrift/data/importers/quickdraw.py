"""Quick, Draw!: `simplified/<name>.ndjson`, drawn here, or `numpy_bitmap/<name>.npy`.

Both give light strokes on black. The split is that of Meta-Dataset: 241 / 52 / 52.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from metadrift.data.images import resize_array
from metadrift.data.importers.plan import (
    Images,
    Options,
    Piece,
    Plan,
    Unreadable,
    off_the_list,
    plan_of,
)
from metadrift.data.importers.source import open_source
from metadrift.data.importers.splits import official_splits
from metadrift.data.pack import NPY_ERRORS, read_npy_header
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures

PER_CLASS = 600  # as many as miniImageNet has; the files hold over 100,000 each
_PREFIXES = ("full_simplified_", "full_numpy_bitmap_", "full_simplified ", "full_numpy_bitmap ")
_MAX_LINE = 4 * 2**20

Strokes = list[NDArray[np.float64]]  # each [2, points], 0..255


def plan(path: Path, options: Options) -> Plan:
    """One class per file. Where both kinds of file are there, the drawings are used."""
    source = open_source(path)
    limit = options.per_class or PER_CLASS
    drawings = {_class_name(n): n for n in sorted(source.names) if n.endswith(".ndjson")}
    bitmaps = {_class_name(n): n for n in sorted(source.names) if n.endswith(".npy")}
    if not drawings and not bitmaps:
        raise MetadriftError(
            f"{path} is not Quick, Draw!: it should hold simplified/*.ndjson or numpy_bitmap/*.npy"
        )
    pieces: dict[str, Piece] = {
        name: Drawings(file, limit, options.keep_unrecognized) for name, file in drawings.items()
    }
    notes = []
    if not drawings:
        pieces = {name: Bitmaps(file, limit) for name, file in bitmaps.items()}
    elif bitmaps:
        notes.append(f"{len(bitmaps)} numpy_bitmap files were left out: the ndjson files are used")
    splits, unknown = official_splits("quickdraw", pieces)
    kind = "simplified drawings" if drawings else "numpy bitmaps"
    origin = f"Quick, Draw! (Google), {kind}, the first {limit} per class"
    files = {name: [piece] for name, piece in pieces.items()}
    notes += off_the_list(unknown)
    return plan_of(files, splits, options, source, origin, "CC BY 4.0", notes, colour=False)


@dataclass(frozen=True)
class Drawings:
    """The first `count` drawings of one ndjson file."""

    member: str
    count: int
    keep_unrecognized: bool

    def make(self, file: BinaryIO | None, form: Pictures) -> Images:
        assert file is not None
        made = 0
        for number in itertools.count(1):
            line = file.readline(_MAX_LINE)
            if not line or made == self.count:
                return
            if not line.strip():
                continue
            try:
                drawing = json.loads(line)
                if not (self.keep_unrecognized or drawing.get("recognized", True)):
                    continue
                yield draw_strokes(_strokes(drawing["drawing"]), form.size)
                made += 1
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                yield Unreadable(f"{self.member}, line {number}", _reason(error))


@dataclass(frozen=True)
class Bitmaps:
    """The first `count` rows of one npy file: uint8 [N, 784]."""

    member: str
    count: int

    def make(self, file: BinaryIO | None, form: Pictures) -> Images:
        assert file is not None
        try:
            shape, fortran, dtype = read_npy_header(file)
            if dtype != np.uint8 or fortran or len(shape) != 2 or shape[1] != 784:
                raise ValueError(f"it holds {dtype} {list(shape)}, not uint8 [N, 784]")
            rows = min(shape[0], self.count)
            data = file.read(rows * 784)
            if len(data) != rows * 784:
                raise ValueError("it is cut off")
        except NPY_ERRORS as error:
            yield Unreadable(self.member, _reason(error))
            return
        for bitmap in np.frombuffer(data, np.uint8).reshape(rows, 28, 28):
            yield resize_array(bitmap, form)


def draw_strokes(strokes: Strokes, size: int) -> NDArray[np.uint8]:
    """Light antialiased strokes on black, uint8 [size, size, 1].

    The proportions are those of the published 28 px bitmaps: the drawing is centred, its 256 units
    have a margin of 24 all around, and the pen is 16 units wide.

    Examples
    --------
    >>> line = np.array([[0.0, 255.0], [0.0, 0.0]])
    >>> image = draw_strokes([line], 28)
    >>> int(image.max()), bool(image[0].any()), bool(image[13:15].any())
    (255, False, True)
    """
    fine = 4 if size <= 128 else 2  # drawn larger, then averaged down
    scale = size * fine / (256 + 2 * 24)
    low = np.min([stroke.min(axis=1) for stroke in strokes], axis=0)
    high = np.max([stroke.max(axis=1) for stroke in strokes], axis=0)
    middle = size * fine / 2 - scale * (low + high) / 2
    canvas = Image.new("L", (size * fine, size * fine))
    pen = ImageDraw.Draw(canvas)
    radius = 8 * scale - 0.5  # Pillow's ellipses include both ends
    for stroke in strokes:
        points = [(float(x), float(y)) for x, y in (stroke.T * scale + middle)]
        if len(points) > 1:
            pen.line(points, fill=255, width=max(1, round(16 * scale)))
        for x, y in points:  # round joints and ends
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=255)
    return np.asarray(canvas.reduce(fine), np.uint8)[:, :, None]


def _strokes(drawing: object) -> Strokes:
    if not isinstance(drawing, list) or not drawing:
        raise ValueError("it has no strokes")
    strokes = [np.array(stroke, np.float64) for stroke in drawing]
    for stroke in strokes:
        if stroke.ndim != 2 or len(stroke) != 2 or stroke.shape[1] == 0:
            raise ValueError("its strokes are not [[x...], [y...]]: is it the simplified form?")
        if not (stroke.min() >= 0 and stroke.max() <= 255):
            raise ValueError("its strokes leave 0..255: is it the simplified form?")
    return strokes


def _class_name(member: str) -> str:
    stem = PurePosixPath(member).stem
    for prefix in _PREFIXES:
        stem = stem.removeprefix(prefix)
    return stem


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return "it is not JSON"
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
