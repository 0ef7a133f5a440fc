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
    id_table,
    off_the_list,
    planned,
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
        box = _box(path, number, boxes.get(number)) if options.crop_to_box else None
        files.setdefault(classes[label], []).append(ImageFile(f"{root}images/{name}", box))
    splits, unknown = official_splits("cub", files)
    origin = "Caltech-UCSD Birds-200-2011 (Wah et al. 2011), split of Chen et al. (2019)"
    origin += "; cropped to the bounding boxes" if options.crop_to_box else ""
    licence = "non-commercial research and education"
    classes_made = planned(files, splits, options)
    channels = 1 if options.grey else 3
    return Plan(classes_made, source, channels, origin, licence, off_the_list(unknown))


def _box(path: Path, number: str, text: str | None) -> Box:
    try:
        left, top, width, height = (float(word) for word in str(text).split())
        return round(left), round(top), round(left + width), round(top + height)
    except (ValueError, OverflowError):
        raise MetadriftError(
            f"image {number} of {path} has no bounding box `x y width height`, but {text!r}"
        ) from None
