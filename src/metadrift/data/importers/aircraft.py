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
    bounding_box,
    id_table,
    off_the_list,
    plan_of,
)
from metadrift.data.importers.source import open_source
from metadrift.data.importers.splits import official_splits
from metadrift.errors import MetadriftError

COPYRIGHT_ROWS = 20
# These lists split images, not classes, so all of them are read; trainval repeats train and val.
_LISTS = [f"images_variant_{part}.txt" for part in ("train", "val", "trainval", "test")]


def plan(path: Path, options: Options) -> Plan:
    """Read the lists, each line `id name`; names may have spaces."""
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
        box = None
        if options.crop_to_box:
            box = bounding_box(path, number, boxes.get(number), "left top right bottom", _box)
        image = ImageFile(f"{root}images/{number}.jpg", box, strip=COPYRIGHT_ROWS)
        files.setdefault(variant, []).append(image)
    splits, unknown = official_splits("aircraft", files)
    origin = "FGVC-Aircraft 2013b (Maji et al. 2013), split of Meta-Dataset (2020)"
    licence = "non-commercial research only; the photographers keep their rights"
    return plan_of(files, splits, options, source, origin, licence, off_the_list(unknown))


def _box(left: float, top: float, right: float, bottom: float) -> Box:
    """From pixels counted from 1, both ends inside."""
    return int(left) - 1, int(top) - 1, int(right), int(bottom)
