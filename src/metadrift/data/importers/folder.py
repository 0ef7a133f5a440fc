"""Any folder or archive with one folder of images per class.

Folders named train, val and test at the top are splits. Without them, or when the same class is in
more than one of them, the classes are split by the published seed: 64 / 16 / 20 %.
"""

from __future__ import annotations

from pathlib import Path

from metadrift.data.importers.plan import ImageFile, Options, Plan, is_image, plan_of
from metadrift.data.importers.source import open_source
from metadrift.data.importers.splits import random_splits
from metadrift.data.pack import Split
from metadrift.errors import MetadriftError

_SPLIT_NAMES: dict[str, Split] = {"train": "train", "training": "train", "test": "test"}
_SPLIT_NAMES |= {"val": "val", "valid": "val", "validation": "val"}


def plan(path: Path, options: Options) -> Plan:
    """A class is a folder at the top (below the split's, if any), with all images in it."""
    source = open_source(path)
    images = sorted(name for name in source.names if is_image(name))
    notes = []
    cut = _wrapping(images)
    tops = {name[cut:].split("/")[0] for name in images if "/" in name[cut:]}
    by_split = bool(tops) and all(top.lower() in _SPLIT_NAMES for top in tops)
    files: dict[str, list[ImageFile]] = {}
    places: dict[str, set[Split]] = {}
    loose = 0
    for name in images:
        parts = name[cut:].split("/")
        if len(parts) < (3 if by_split else 2):
            loose += 1
            continue
        split = _SPLIT_NAMES[parts.pop(0).lower()] if by_split else None
        files.setdefault(parts[0], []).append(ImageFile(name))
        if split:
            places.setdefault(parts[0], set()).add(split)
    if len(files) < 2:
        raise MetadriftError(
            f"{path} holds {len(files)} class folders with images; it should hold at least 2, one "
            "folder of images per class, or train, val and test with such folders in them"
        )
    if loose:
        notes.append(f"{loose} images lie outside of any class folder and were left out")
    if by_split and all(len(splits) == 1 for splits in places.values()):
        splits = {name: next(iter(where)) for name, where in places.items()}
    else:
        splits = random_splits(files)
        if by_split:
            notes.append(
                "train, val and test hold the same classes, but a few-shot split is by class: "
                "the images of a class were put together and the classes split by the seed"
            )
    origin = f"images in {path.resolve().name}"
    return plan_of(files, splits, options, source, origin, "not stated", notes)


def _wrapping(names: list[str]) -> int:
    """The length of the path that all names begin with, such as the folder inside an archive."""
    cut = 0
    while names:
        tops = {name[cut:].split("/")[0] for name in names}
        top = tops.pop()
        deep = any(name[cut:].count("/") >= 2 for name in names)
        if tops or not deep or top.lower() in _SPLIT_NAMES:
            break
        cut += len(top) + 1
    return cut
