"""FGVC-Aircraft (Maji et al. 2013): `fgvc-aircraft-2013b.tar.gz` or the extracted folder.

A class is a variant. The split is that of Meta-Dataset: 70 / 15 / 15. The 20 lowest rows of each
image name its owner and are cut away before resizing.
"""

from __future__ import annotations

from pathlib import Path

from metadrift.data.images import Box
from metadrift.data.importers.plan import (
    ImageFile,
    Options,
    Plan,
    id_table,
    off_the_list,
    planned,
)
from metadrift.data.importers.source import open_source
from metadrift.data.importers.splits import official_splits
from metadrift.errors import MetadriftError

COPYRIGHT_ROWS = 20
# The image lists are splits of images, which do not matter here; trainval is train and val again.
_LISTS = [f"images_variant_{part}.txt" for part in ("train", "val", "trainval", "test")]


def plan(path: Path, options: Options) -> Plan:
    """Read the lists of `id name with spaces`."""
    source = open_source(path, mount=["fgvc-aircraft-2013b.tar.gz"])
    folders = [folder for name in _LISTS for folder in source.beside(name)]
    if not folders:
        raise MetadriftError(
            f"{path} is not FGVC-Aircraft: it should be fgvc-aircraft-2013b.tar.gz or the folder "
            "with data/images/*.jpg and data/images_variant_{train,val,test}.txt"
        )
    root = folders[0]
    variants = {}
    for name in _LISTS:
        if root + name in source.names:
            variants.update(id_table(source, root + name))
    boxes = id_table(source, root + "images_box.txt") if options.crop_to_box else {}
    files: dict[str, list[ImageFile]] = {}
    for number, variant in sorted(variants.items()):
        box = _box(path, number, boxes.get(number)) if options.crop_to_box else None
        image = ImageFile(f"{root}images/{number}.jpg", box, strip=COPYRIGHT_ROWS)
        files.setdefault(variant, []).append(image)
    splits, unknown = official_splits("aircraft", files)
    origin = "FGVC-Aircraft 2013b (Maji et al. 2013), split of Meta-Dataset (2020)"
    origin += "; cropped to the bounding boxes" if options.crop_to_box else ""
    licence = "non-commercial research only; the photographers keep their rights"
    classes = planned(files, splits, options)
    return Plan(classes, source, 1 if options.grey else 3, origin, licence, off_the_list(unknown))


def _box(path: Path, number: str, text: str | None) -> Box:
    """`left top right bottom`, counted from 1, both ends inside."""
    try:
        left, top, right, bottom = (int(word) for word in str(text).split())
        return left - 1, top - 1, right, bottom
    except ValueError:
        raise MetadriftError(
            f"image {number} of {path} has no bounding box `left top right bottom`, but {text!r}"
        ) from None
