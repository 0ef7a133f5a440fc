"""`metadrift data preview`: a PNG sheet of a pack's images."""

from __future__ import annotations

import io
from pathlib import Path

import tyro

from metadrift.commands.arguments import call
from metadrift.data.library import find_pack
from metadrift.data.pack import Split
from metadrift.data.preview import Sheet, draw_sheet
from metadrift.errors import MetadriftError, UsageError
from metadrift.randomness import Purpose, generator
from metadrift.storage.files import write_atomically
from metadrift.storage.terminal import printable


def main(words: list[str]) -> int:
    return call(preview_pack, "data preview", words)


def preview_pack(
    pack: tyro.conf.Positional[str],
    /,
    *,
    data: Path | None = None,
    out: Path | None = None,
    split: Split = "train",
    classes: int = 10,
    images: int = 12,
    seed: int = 0,
) -> int:
    """Draw a sheet of a pack's images as a PNG file: a row is a class, its name at the left.

    Parameters
    ----------
    pack
        A name in the data folder, or a path.
    data
        The data folder; by default METADRIFT_DATA, else the user's data folder.
    out
        The PNG file; by default NAME-SPLIT.png in the current folder.
    split
        The split whose classes are shown.
    classes
        The number of rows.
    images
        The number of images in a row.
    seed
        The seed of the choice of classes and images.
    """
    if classes < 1 or images < 1 or seed < 0:
        raise UsageError("--classes and --images must be at least 1, and --seed at least 0")
    found = find_pack(pack, data)
    sheet = Sheet(split, min(classes, 1000), min(images, 200))
    picture = draw_sheet(found, sheet, generator(seed, Purpose.PREVIEW))
    file = out or Path(f"{printable(found.name)}-{split}.png")
    png = io.BytesIO()
    picture.save(png, "PNG")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, png.getvalue())
    except OSError as error:
        raise MetadriftError(f"the sheet cannot be written to {file}: {error}") from None
    print(printable(str(file)))
    return 0
