"""A sheet of a pack's images: a row is a class, its name at the left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from metadrift.data.pack import Pack, Split
from metadrift.errors import MetadriftError

_GAP = 2
_NAME_WIDTH = 200
_PAPER = (245, 245, 245)


@dataclass(frozen=True)
class Sheet:
    """How much of a pack to show: classes of one split, and images of each class."""

    split: Split = "train"
    classes: int = 10
    images: int = 12
    cell: int = 64  # pixels of one image on the sheet; small images are enlarged to about this


def draw_sheet(pack: Pack, sheet: Sheet, rng: np.random.Generator) -> Image.Image:
    """Classes and images drawn at random from one split, as a picture.

    Examples
    --------
    >>> import tempfile
    >>> from metadrift.data.pack import open_pack, write_pack
    >>> rows = [("cat", "train", np.zeros((3, 28, 28, 1), np.uint8))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack = open_pack(write_pack(f"{folder}/pets", "pets", rows, source="", licence=""))
    ...     draw_sheet(pack, Sheet(images=3), np.random.default_rng(0)).size
    (376, 60)
    """
    pack.kind.as_pictures("a preview")
    classes = pack.classes(sheet.split)
    if not classes:
        raise MetadriftError(f"pack {pack.name!r} has no {sheet.split} classes to show")
    chosen = rng.choice(len(classes), min(sheet.classes, len(classes)), replace=False)
    side = pack.image_size * max(1, round(sheet.cell / pack.image_size))
    step = side + _GAP
    width = _NAME_WIDTH + sheet.images * step + _GAP
    paper = Image.new("RGB", (width, len(chosen) * step + _GAP), _PAPER)
    pen, font = ImageDraw.Draw(paper), ImageFont.load_default(12)
    for row, c in enumerate(classes[i] for i in sorted(chosen)):
        top = _GAP + row * step
        pen.text((6, top + side // 2), _short(pack.class_names[c]), "black", font, anchor="lm")
        size = pack.class_size(c)
        picked = rng.choice(size, min(sheet.images, size), replace=False)
        for column, i in enumerate(sorted(picked)):
            pixels = np.array(pack.images[pack.class_offsets[c] + i])
            image = Image.fromarray(pixels[:, :, 0] if pack.channels == 1 else pixels)
            image = image.resize((side, side), Image.Resampling.NEAREST)
            paper.paste(image, (_NAME_WIDTH + column * step, top))
    return paper


def _short(name: str) -> str:
    # the default font has no glyphs beyond Latin; a name in another script shows as boxes
    return name if len(name) <= 30 else name[:14] + "…" + name[-15:]
