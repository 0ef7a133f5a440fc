"""Caltech-UCSD Birds-200-2011 (Wah et al. 2011): `CUB_200_2011.tgz` or the extracted folder.

The split is that of Chen et al. (2019): 100 / 50 / 50.
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


def plan(path: Path, options: Options) -> Plan:
    """Join images.txt, image_class_labels.txt and classes.txt by their ids."""
    source = open_source(path, mount=["CUB_200_2011.tgz"])
    roots = source.beside("image_class_labels.txt")
    if not roots:
        raise MetadriftError(
            f"{path} is not CUB-200-2011: it should be CUB_200_2011.tgz or the folder with "
            "images/, images.txt, image_class_labels.txt and classes.txt"
        )
    root = roots[0]
    classes = id_table(source, root + "classes.txt")
    labels = id_table(source, root + "image_class_labels.txt")
    boxes = id_table(source, root + "bounding_boxes.txt") if options.crop_to_box else {}
    files: dict[str, list[ImageFile]] = {}
    for number, name in sorted(id_table(source, root + "images.txt").items(), key=lambda i: i[1]):
        label = labels.get(number)
        if label not in classes:
            raise MetadriftError(
                f"image {number} of {path} has no class: image_class_labels.txt and classes.txt "
                f"say {label!r}"
            )
        box = None
        if options.crop_to_box:
            box = bounding_box(path, number, boxes.get(number), "x y width height", _box)
        files.setdefault(classes[label], []).append(ImageFile(f"{root}images/{name}", box))
    splits, unknown = official_splits("cub", files)
    origin = "Caltech-UCSD Birds-200-2011 (Wah et al. 2011), split of Chen et al. (2019)"
    licence = "non-commercial research and education"
    return plan_of(files, splits, options, source, origin, licence, off_the_list(unknown))


def _box(left: float, top: float, width: float, height: float) -> Box:
    return round(left), round(top), round(left + width), round(top + height)
